from __future__ import annotations

from tui.model.history import History, Place
from tui.model.table_spec import TableState


def test_back_and_forward_as_in_a_browser() -> None:
    history = History()
    for name in ("dashboard", "kernels", "log"):
        history.visit(Place(name))
    assert history.step(1) is None
    assert history.step(-1) == Place("kernels")
    assert history.step(-1) == Place("dashboard")
    assert history.step(-1) is None
    assert history.step(1) == Place("kernels")
    history.visit(Place("issues"))
    assert [place.view for place in history.places] == ["dashboard", "kernels", "issues"]


def test_visiting_the_same_place_keeps_its_newest_state() -> None:
    history = History()
    history.visit(Place("kernels", "launches"))
    arranged = Place("kernels", "launches", states=(("launches", TableState(filter="gemm")),))
    history.visit(arranged)
    assert history.places == [arranged]
    history.keep(Place("kernels", "launches"))
    assert history.current == Place("kernels", "launches")
    history.keep(Place("log"))
    assert history.current == Place("kernels", "launches")


def test_leaving_a_view_skips_its_levels() -> None:
    history = History()
    for place in (Place("dashboard"), Place("kernels"), Place("kernels", "launches"), Place("kernels", "kernels")):
        history.visit(place)
    assert history.leave_view() == Place("dashboard")
    assert history.leave_view() is None
    assert history.previous == Place("kernels", "kernels")
