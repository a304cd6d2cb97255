"""The HTML report is a well-formed page that loads nothing and has the figures of the JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from tests.analysis import frames
from tests.corpus import recording_file
from tests.profiles import SAMPLES, load, load_one
from tests.waiting import TIMEOUT_S
from tui.analysis.layers import layers
from tui.analysis.roofline import op_work_by_shape
from tui.cli.main import main
from tui.output.html_page import MAX_ROWS, escape_text, html_table
from tui.output.html_report import HtmlDashboard, findings_html, roofline_plot, table_markup, view_html
from tui.output.report import as_json, tables_with_rows, written_columns
from tui.output.report_dashboard import DashboardReport, _cost
from tui.tables import TABLES

SAMPLE = str(SAMPLES / "mlp_modules.pt.trace.json.gz")
HOSTILE = "</td><script>alert(1)</script><img src=http://x onerror=a>&\"'\x1b]52;c;x\x07\u202e"


def parsed_page(page: str) -> ElementTree.Element:
    """Parse a page, and check that it is well-formed, loads nothing and runs only the script that its policy names."""
    root = ElementTree.fromstring(page.replace("<!DOCTYPE html>", "", 1))
    assert [element.tag for element in root.iter("script")] == ["script"]
    for element in root.iter():
        assert element.tag not in ("img", "link", "iframe", "object", "base", "form"), element.tag
        for name, value in element.attrib.items():
            assert not name.startswith("on"), name
            assert name not in ("src", "action"), name
            assert name != "href" or value.startswith("#"), value
            assert "url(" not in value, value
    style = root.find("head/style")
    assert style is not None
    assert style.text is not None
    assert "url(" not in style.text
    assert "@import" not in style.text
    policy = next(meta.get("content") for meta in root.iter("meta") if meta.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    return root


def section(root: ElementTree.Element, heading: str) -> ElementTree.Element:
    return next(element for element in root.iter("section") if "".join(element[0].itertext()).startswith(heading))


def column_values(parent: ElementTree.Element, heading: str) -> list[float | None]:
    """Return the values of a column in base units."""
    table = next(parent.iter("table"))
    headings = ["".join(head.itertext()) for head in table.iter("th")]
    column = next(index for index, text in enumerate(headings) if text.split(" ")[0] == heading)
    cells = [row[column].get("data-v") for row in table.iter("tr") if row[0].tag == "td"]
    return [float(cell) if cell else None for cell in cells]


def test_the_dashboard_has_the_figures_of_its_json() -> None:
    profile = load_one(SAMPLE)
    root = parsed_page(HtmlDashboard(profile).as_html())
    content = json.loads(DashboardReport(profile).as_json())
    for heading, name, column, key in (
        ("Total GPU time", "gpu_uses", "Total", "total_ns"),
        ("Top ops", "top_ops", "Total", "total_ns"),
        ("Top kernels", "top_kernels", "Calls", "calls"),
        ("Wall time", "breakdown", "Time", "time_ns"),
        ("Copies", "copies", "Size", "size_bytes"),
    ):
        assert column_values(section(root, heading), column) == [row[key] for row in content[name]], name
    assert (
        sum(filter(None, column_values(section(root, "Total GPU time"), "Total"))) == content["performance"]["gpu_ns"]
    )
    tiles = [["".join(part.itertext()) for part in tile] for tile in section(root, "Performance summary").iter("div")]
    assert ["Wall time", "8.23 ms"] in tiles
    wall_time_tile = next(
        tile for tile in section(root, "Performance summary").iter("div") if "Wall time" in tile[0].itertext()
    )
    assert wall_time_tile.get("title", "").startswith("8.2325 ms. ")
    assert "".join(next(root.iter("header"))[1].itertext()).startswith("NVIDIA H")
    findings = [element for element in root.iter("div") if element.get("class", "").startswith("finding ")]
    top_findings = content["top_findings"]
    assert len(findings) >= len(top_findings)
    assert all(
        finding["problem"].replace("`", "") in "".join(element.itertext())
        for finding, element in zip(top_findings, findings, strict=False)
    )
    # Wall time, utilization, iterations, use, kinds of work, roofline.
    labels = [element.get("aria-label") for element in root.iter("svg")]
    assert labels == [
        "Wall time: 8.23 ms",
        "GPU 0 utilization over time",
        "Iterations: median 2.17 ms",
        "GPU time by use",
        "GPU time by kind of work",
        "TFLOP/s over FLOP/byte by op and shape; larger marks took more GPU time",
    ]
    uses = [part.text for part in list(root.iter("svg"))[3].iter("title")]
    assert uses == ["All other kernels: 214 µs, 93%", "Copies: 11.5 µs, 5%", "Memsets: 4.64 µs, 2%"]
    wall_time_chart = next(root.iter("svg"))
    assert sum(float(part.get("width", 0)) for part in wall_time_chart) == pytest.approx(1000, abs=0.1)


def test_every_row_of_a_view_is_on_its_page() -> None:
    profile = load_one(SAMPLE)
    for view in ("kernels", "group-ops", "timeline", "issues", "ranks"):
        root = parsed_page(view_html(profile, view))
        rows = json.loads(as_json(profile, view))["rows"]
        table_rows = [row for row in next(root.iter("section")).iter("tr") if row[0].tag == "td"]
        assert len(table_rows) == min(len(rows), MAX_ROWS), view
        if view == "group-ops":
            class_of = {cell[0].text: cell[0].get("class") for row in table_rows for cell in row if len(cell)}
            assert (class_of["group"], class_of["Sequential_0/GELU_0"]) == ("short", "long")
    assert "Findings" in "".join(parsed_page(findings_html(profile)).itertext())


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    log = (SAMPLES / "caffe_conv1.nvprof.log").read_bytes().replace(b"cudnn", b"cudnn" + HOSTILE.encode())
    path = tmp_path / "run<b>&.log"
    path.write_bytes(log)
    profile = load_one(str(path))
    for page in (HtmlDashboard(profile).as_html(), findings_html(profile), view_html(profile, "kernels")):
        root = parsed_page(page)
        assert not any(character in page for character in "\x1b\x07\u202e")
        assert "<b>&" in "".join(next(root.iter("h1")).itertext())
    assert "</td><script>alert(1)</script><img src=http://x onerror=a>&\"'·" in "".join(root.itertext())
    assert escape_text("a\ufffe\0") == "a··"


def test_the_roofline_chart_has_a_mark_per_op_and_shape() -> None:
    profile = load_one(str(SAMPLES / "resnet50_training.pt.trace.json.gz"))
    page = parsed_page(view_html(profile, "roofline"))
    (svg,) = page.iter("svg")
    work = op_work_by_shape(profile).filter(pl.col("flops") > 0)
    marks = [mark[0].text or "" for mark in svg.iter("circle")]
    assert len(marks) == work.height
    below_top = [float(mark.get("cy", 0)) for mark in svg.iter("circle")]
    rates = work["tflops_per_s"]
    assert rates.gather(np.argsort(below_top)).to_list() == pytest.approx(
        rates.sort(descending=True).to_list(), rel=0.01
    )
    assert all(8 <= y <= 380 for y in below_top)
    first = work.row(0, named=True)
    assert marks[0].startswith(f"{first['op']} {first['shapes']}: {first['tflops_per_s']:.3g} TFLOP/s, ")
    assert f"{first['roof_pct']:.0f}% of the roof" in marks[0]
    assert "bf16 989.4 TFLOP/s, 4.8 TB/s" in [element.text for element in svg.iter("text")]
    assert roofline_plot(load_one(str(SAMPLES / "gpt_summary.nvprof.log"))) == ""


def test_cells_have_values_in_base_units_and_none_if_unknown() -> None:
    spec = next(table for table in TABLES if table.name == "kernels").table_spec()
    rows = next(table for table in TABLES if table.name == "kernels").rows(load_one(SAMPLE)).head(2)
    rows = rows.with_columns(pl.Series("total_ns", [1_500_000, None], dtype=pl.Int64))
    root = ElementTree.fromstring(html_table(written_columns(spec, rows), rows, pinned=spec.pinned))
    assert column_values(root, "Total") == [1_500_000, None]
    assert next(root.iter("td")).find("div") is not None, "the name comes first"


def test_rows_of_a_tree_are_indented_by_their_depth() -> None:
    profile = load_one(str(SAMPLES / "resnet50_training.pt.trace.json.gz"))
    names = [row[0][0] for row in parsed_page(view_html(profile, "group-ops")).iter("tr") if row[0].tag == "td"]
    style_of = {cell.text: cell.get("style") for cell in reversed(names)}
    assert style_of["all"] is None
    assert (style_of["backward"], style_of["aten::convolution_backward"]) == ("padding-left: 2ch", "padding-left: 10ch")


def test_a_page_of_ranks_names_the_gpus_with_work() -> None:
    ranks, errors = load([recording_file(f"ddp_rank{rank}.pt.trace.json.gz") for rank in (0, 1)])
    assert ranks is not None
    assert not errors
    page = "".join(parsed_page(view_html(ranks, "ranks")).itertext())
    assert ranks["devices"].height == 4
    assert "2 × NVIDIA H200, PyTorch profiler, 2 sessions" in page


def test_names_have_a_class_by_their_length() -> None:
    spec = next(table for table in TABLES if table.name == "layer_times").table_spec()
    class_of = {}
    for name in ("conv1", "a layer of some words", "k" * 121):
        rows = layers(frames.make_profile(layers=[{"layer": name, "time_ns": 5, "measured": True}]))
        table = ElementTree.fromstring(html_table(written_columns(spec, rows), rows, pinned=spec.pinned))
        class_of |= {element.text: element.get("class") for element in table.iter("div") if element.text == name}
    assert class_of == {"conv1": "short", "a layer of some words": "long", "k" * 121: "symbol"}


def test_report_writes_a_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.html"
    log = str(SAMPLES / "gpt_summary.nvprof.log")
    assert main(["report", log, "-o", str(path)]) == 0
    assert parsed_page(path.read_text("utf-8")).tag == "html"
    assert main(["report", log, "--format", "html", "--view", "kernels", "--notes"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("<!DOCTYPE html>")
    assert err == f"proftui: wrote dashboard to {path}\n"
    assert main(["report", log, "-o", str(path)]) == 2
    assert capfd.readouterr().err.startswith(f"proftui: {path} exists\n")


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_a_browser_shows_the_page_at_every_width_and_color_scheme(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    page = tmp_path / "run.html"
    page.write_text(HtmlDashboard(load_one(SAMPLE)).as_html(), "utf-8")

    def browse(url: str, *options: str) -> str:
        command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options, url]
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        return result.stdout

    for width in (390, 1280):
        # A browser window has a minimum width, a frame in it has none.
        frame = tmp_path / f"frame{width}.html"
        frame.write_text(
            '<!DOCTYPE html><html style="color-scheme: light dark"><body style="margin: 0">'
            f'<iframe src="{page.as_uri()}" style="border: 0; width: {width}px; height: 900px"></iframe></body></html>'
        )
        for scheme, (min_channel, max_channel) in {"light": (240, 255), "dark": (0, 40)}.items():
            screenshot = tmp_path / f"{width}{scheme}.png"
            browse(
                frame.as_uri(),
                f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
                f"--window-size={max(width, 600)},900",
                f"--screenshot={screenshot}",
            )
            colors = image.open(screenshot).convert("RGB").crop((0, 0, width, 900)).getcolors(1 << 24)
            background = max(colors)[1]
            assert all(min_channel <= channel <= max_channel for channel in background), (width, scheme, background)
            assert len(colors) > 50, "text and charts"
    # The script ran: every heading of a sortable table is a button.
    dom = browse(page.as_uri(), "--dump-dom")
    assert dom.count("<button>") == dom.count('<th class="')


def test_the_column_that_names_a_row_comes_first() -> None:
    table = next(entry for entry in TABLES if entry.name == "kernels")
    rows = table.rows(load_one(SAMPLE)).head(2)
    root = ElementTree.fromstring(table_markup(replace(table.table_spec(), pinned="calls"), rows))
    assert next(root.iter("th")).text == "Calls"


def test_tables_are_of_the_gpu_that_the_user_names() -> None:
    gpus = [table for table in TABLES if table.name == "gpus"]
    profile = load_one(str(SAMPLES / "gpt_summary.nvprof.log"))
    ((spec, rows),) = tables_with_rows(replace(profile, gpu="A100"), gpus)
    assert (spec.name, rows.height) == ("gpus", 1)
    assert list(tables_with_rows(profile, gpus)) == []


def test_the_cost_of_a_finding_without_a_known_share() -> None:
    row = {"cost_ns": 1_500_000, "cost_pct": None, "cost_of": "all GPU time"}
    assert _cost(row) == "1.5 ms"
    assert _cost({**row, "cost_pct": 12.4}) == "1.5 ms (12% of all GPU time)"
    assert _cost({**row, "cost_ns": None}) == ""
