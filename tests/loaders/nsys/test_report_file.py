"""Nsight's own reports, with a substitute for nsys."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.loaders.nsys import twin
from tests.waiting import TIMEOUT_S
from tui.loaders.nsys import report_file
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.base import LoadProgress
    from tui.model.profile import Profile

HEAD = b"NVIDIA Tegra Profiler Report 2025@1@3@140-251\n" + bytes(200)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a report and a separate cache; PATH is empty."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "run.nsys-rep").write_bytes(HEAD)
    return tmp_path


def install_nsys(folder: Path, script: str) -> None:
    """Install an nsys that records its arguments and then runs the script; $out is the export to write."""
    nsys = folder / "bin" / "nsys"
    nsys.write_text(
        "#!/bin/sh\nPATH=/usr/bin:/bin\n"
        f'for one in "$@"; do printf "%s\\n" "$one" >> "{folder}/called"; '
        'case "$one" in --output=*) out=${one#--output=};; esac; done\n'
        f"{script}\n"
    )
    nsys.chmod(nsys.stat().st_mode | stat.S_IXUSR)


def install_working_nsys(folder: Path) -> None:
    twin.write(folder / "made.sqlite", "2023.4")
    install_nsys(folder, f'cp "{folder}/made.sqlite" "$out"')


def kernels(profile: Profile) -> int:
    return int((profile["activities"]["kind"] == "kernel").sum())


def reasons(profile: Profile) -> list[str]:
    return profile["issues"]["reason"].to_list()


def cached_names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "cache").rglob("*") if path.is_file())


def cached_export(folder: Path) -> Path:
    """Return the only export in the cache."""
    (name,) = cached_names(folder)
    return folder / "cache" / "proftui" / "nsys" / name


def test_without_nsys_the_error_shows_the_command(folder: Path) -> None:
    report = folder / "run.nsys-rep"
    with pytest.raises(ProftuiError) as caught:
        load_input(str(report))
    assert str(caught.value) == (
        f"{report}: reading an Nsight Systems report requires nsys, which is not on the PATH; export it on a "
        f"machine with nsys: nsys export --type sqlite --force-overwrite true -o {report.with_suffix('.sqlite')} "
        f"{report}"
    )


def test_an_export_next_to_the_report_is_used(folder: Path) -> None:
    export = twin.write(folder / "run.sqlite", "2023.4")
    later = time.time() + 10
    os.utime(export, (later, later))
    profile = load_input(str(folder / "run.nsys-rep"))
    assert kernels(profile) == 6
    assert profile["sessions"]["format"].to_list() == ["nsys-report"] * 2
    assert profile.sources == (str(folder / "run.nsys-rep"),)
    assert "read from this export, next to the report" in reasons(profile)


@pytest.mark.parametrize("problem", ["older", "empty", "texts alone"])
def test_an_invalid_export_next_to_the_report_is_not_used(folder: Path, problem: str) -> None:
    export = folder / "run.sqlite"
    rows = {"StringIds": [{"id": 1, "value": "x"}]} if problem == "texts alone" else None
    twin.write(export, "2025.5", rows)
    if problem == "empty":
        export.write_bytes(b"")
    export_time = time.time() + (-1000 if problem == "older" else 1000)
    os.utime(export, (export_time, export_time))
    install_working_nsys(folder)
    profile = load_input(str(folder / "run.nsys-rep"))
    reason = "it is older than the report" if problem == "older" else "it is empty or damaged"
    assert f"the export next to the report was not used: {reason}" in reasons(profile)
    assert profile["sessions"]["tool_version"].to_list() == ["2023.4.1"] * 2


def test_an_older_export_in_a_folder_is_replaced_or_reported(folder: Path) -> None:
    runs = folder / "runs"
    runs.mkdir()
    report = runs / "run.nsys-rep"
    report.write_bytes(HEAD)
    export = twin.write(runs / "run.sqlite", "2025.5")
    earlier = time.time() - 1000
    os.utime(export, (earlier, earlier))
    expected = (
        "the report is newer than this export, which may be of an earlier recording; export again: nsys export "
        f"--type sqlite --force-overwrite true -o {export} {report}"
    )
    for path in (runs, export):
        profile = load_input(str(path))
        assert profile["sessions"]["tool_version"].to_list() == ["2025.5.1"] * 2
        reported = profile["issues"].select("session", "severity", "text", "reason").rows()
        # Reasons are cut where their paths are long.
        assert [row[:3] for row in reported if expected.startswith(row[3])] == [(None, "warning", "run.nsys-rep")]
    install_working_nsys(folder)
    profile = load_input(str(runs))
    assert profile["sessions"]["tool_version"].to_list() == ["2023.4.1"] * 2
    assert "the export next to the report was not used: it is older than the report" in reasons(profile)
    os.utime(export, None)
    assert not any("newer than this export" in reason for reason in reasons(load_input(str(runs))))


def test_nsys_exports_once_and_never_next_to_the_report(folder: Path) -> None:
    install_working_nsys(folder)
    before = sorted(folder.iterdir())
    assert kernels(load_input(str(folder / "run.nsys-rep"))) == 6
    called = (folder / "called").read_text().splitlines()
    assert called[:3] == ["export", "--type=sqlite", "--force-overwrite=true"]
    assert called[3].startswith(f"--output={folder}/cache/")
    assert called[4:] == [str(folder / "run.nsys-rep")]
    assert [path for path in sorted(folder.iterdir()) if path.name != "called"] == before
    assert len(cached_names(folder)) == 1
    assert kernels(load_input(str(folder / "run.nsys-rep"))) == 6
    assert len((folder / "called").read_text().splitlines()) == 5
    # Another recording under the same name is exported anew.
    (folder / "run.nsys-rep").write_bytes(HEAD + b"more")
    load_input(str(folder / "run.nsys-rep"))
    assert len((folder / "called").read_text().splitlines()) == 10
    assert len(cached_names(folder)) == 2


def test_a_cached_export_is_private_to_the_user(folder: Path) -> None:
    install_working_nsys(folder)
    load_input(str(folder / "run.nsys-rep"))
    export = cached_export(folder)
    assert stat.S_IMODE(export.stat().st_mode) == 0o600
    assert stat.S_IMODE(export.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("spoil", ["others may read it", "others may look into its folder", "link", "second name"])
def test_a_cached_export_accessible_to_others_is_replaced(folder: Path, spoil: str) -> None:
    install_working_nsys(folder)
    load_input(str(folder / "run.nsys-rep"))
    export = cached_export(folder)
    if spoil == "others may read it":
        export.chmod(0o644)
    elif spoil == "others may look into its folder":
        export.parent.chmod(0o755)
    elif spoil == "link":
        export.rename(folder / "elsewhere")
        export.symlink_to(folder / "elsewhere")
    else:
        (folder / "second").hardlink_to(export)
    assert kernels(load_input(str(folder / "run.nsys-rep"))) == 6
    times = 1 if spoil == "others may look into its folder" else 2
    assert len((folder / "called").read_text().splitlines()) == 5 * times
    export = cached_export(folder)
    assert not export.is_symlink()
    assert stat.S_IMODE(export.stat().st_mode) == 0o600
    assert stat.S_IMODE(export.parent.stat().st_mode) == 0o700


def test_an_export_that_another_run_removes_meanwhile_is_no_failure(folder: Path) -> None:
    install_working_nsys(folder)
    gone = folder / "cache" / "proftui" / "nsys" / "other.sqlite"
    gone.parent.mkdir(parents=True)
    gone.symlink_to(folder / "missing")
    assert kernels(load_input(str(folder / "run.nsys-rep"))) == 6


def test_a_file_name_like_an_option_is_passed_as_a_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_working_nsys(folder)
    (folder / "--help.nsys-rep").write_bytes(HEAD)
    monkeypatch.chdir(folder)
    load_input("--help.nsys-rep")
    assert (folder / "called").read_text().splitlines()[4] == f"{folder}/--help.nsys-rep"


def test_the_error_of_nsys_for_a_newer_report_is_shown(folder: Path) -> None:
    install_nsys(
        folder,
        "echo Processing... ; printf 'Report was created in Nsight Systems version (2025.1.3),"
        " newer than your current version\\033[31m' >&2; echo; echo bye; exit 1",
    )
    with pytest.raises(ProftuiError) as caught:
        load_input(str(folder / "run.nsys-rep"))
    assert caught.value.message == (
        f"{folder}/run.nsys-rep: nsys export failed: Report was created in Nsight Systems version (2025.1.3), "
        "newer than your current version [31m"
    )
    assert cached_names(folder) == []


@pytest.mark.parametrize("script", ["exit 0", 'touch "$out"', 'echo no database > "$out"'])
def test_an_nsys_that_writes_nothing_is_an_error(folder: Path, script: str) -> None:
    install_nsys(folder, script)
    with pytest.raises(ProftuiError, match="nsys export failed: exit status 0"):
        load_input(str(folder / "run.nsys-rep"))
    assert cached_names(folder) == []


def is_running(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_stop_ends_nsys_and_its_child_processes(folder: Path) -> None:
    install_nsys(
        folder,
        f'(sleep 600; touch "{folder}/waited for") & echo $! > "{folder}/new"; '
        f'mv "{folder}/new" "{folder}/child"; wait',
    )

    def report(_progress: LoadProgress) -> bool:
        return not (folder / "child").exists()

    with pytest.raises(ProftuiError, match="stopped while nsys exported it"):
        load_input(str(folder / "run.nsys-rep"), on_progress=report)
    assert not (folder / "waited for").exists()
    child = int((folder / "child").read_text())
    ends = time.monotonic() + TIMEOUT_S
    while is_running(child):
        assert time.monotonic() < ends, "what nsys started still runs"
        time.sleep(0.05)
    assert cached_names(folder) == []


def test_the_cache_keeps_the_newest_exports(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_working_nsys(folder)
    monkeypatch.setattr(report_file, "_MAX_EXPORTS", 3)
    created: list[str] = []
    for number in range(5):
        (folder / "run.nsys-rep").write_bytes(HEAD + bytes(number))
        load_input(str(folder / "run.nsys-rep"))
        created += [name for name in cached_names(folder) if name not in created]
    assert len(created) == 5
    assert set(cached_names(folder)) == set(created[2:])


def test_an_unwritable_cache_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_working_nsys(folder)
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    with pytest.raises(ProftuiError, match=r"cannot be exported .*set XDG_CACHE_HOME"):
        load_input(str(folder / "run.nsys-rep"))


def test_a_recording_not_yet_imported_is_reported(folder: Path) -> None:
    (folder / "run.qdstrm").write_bytes(HEAD)
    with pytest.raises(ProftuiError, match="not a report; import it: QdstrmImporter -i"):
        load_input(str(folder / "run.qdstrm"))
