"""`proftui mcp`, through the official client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from jsonschema import Draft202012Validator

from tests.profiles import SAMPLES
from tui.analysis.expert.findings import RULES
from tui.cli import mcp_server
from tui.model.errors import ProftuiError
from tui.tables import ALL_REPORTS

if TYPE_CHECKING:
    from mcp.client import Client

SCHEMAS: Final = Path(__file__).parents[2] / "docs" / "json"
LOG: Final = "resnet50_training.nvprof.log"
TORCH: Final = "resnet50_training.pt.trace.json.gz"
TOOLS: Final = {"profiles", "open", "summary", "findings", "explain", "table", "sql", "diff"}


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    """The answer of a tool, which keeps to its published schema, or the text of its error."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    if result.is_error:
        return content.text
    answer = json.loads(content.text)
    name = answer["schema"].removeprefix("proftui.").partition("/")[0]
    Draft202012Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text())).validate(answer)
    return answer


async def test_an_agent_finds_the_rows_behind_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From what the file holds to the kernel's launches, each answer leading to the next; no other file is read."""
    from mcp.client import Client

    from tests.profiles import load

    monkeypatch.setattr(mcp_server, "load", lambda files, **_how: load(files))
    outside = tmp_path / "secret.log"
    outside.write_text((SAMPLES / LOG).read_text(errors="replace")[:20_000])
    async with Client(mcp_server.server([str(SAMPLES)])) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
        listed = {Path(row["path"]).name: row for row in (await ask(client, "profiles"))["rows"]}
        assert listed[LOG]["format"] == "nvprof-text"
        assert "contains profiles of different runs" in await ask(client, "open", path=".")
        ranks = await ask(client, "open", path=[f"ddp_ranks/ddp_rank{rank}.pt.trace.json.gz" for rank in (0, 1)])
        assert [(Path(one["file"]).name[:9], one["rank"]) for one in ranks["sessions"]] == [
            ("ddp_rank0", 0),
            ("ddp_rank1", 1),
        ]
        held = await ask(client, "open", path=LOG)
        assert held["schema"] == "proftui.inspect/1"
        assert held["sources"][0]["bytes"] == (SAMPLES / LOG).stat().st_size
        assert held["sessions"][0]["frames"]["activities"]["rows"] == 4630
        assert held["views"]["kernels"] == "ok"
        found = await ask(client, "findings", path=LOG)
        worst = found["rows"][0]
        assert worst["severity"] in ("error", "warning")
        rule = worst["rule"]
        assert worst["all_rules"].split()[0] == rule
        why = await ask(client, "explain", path=LOG, rule=rule)
        assert why["about"]["rule"] == rule
        assert why["rows"][0]["numbers"]
        kernels = await ask(client, "table", path=LOG, view="kernels", sort="-total_ns", limit=2)
        assert (len(kernels["rows"]), kernels["total_rows"], kernels["truncated"]) == (2, {"rows": 80}, True)
        key = kernels["rows"][0]["key"]
        launches = await ask(client, "table", path=LOG, view="kernels", name="launches", above=[key], limit=1)
        assert launches["total_rows"]["rows"] == kernels["rows"][0]["calls"]
        total = await ask(client, "sql", path=LOG, query="SELECT SUM(duration_ns) AS ns FROM activities")
        assert total["rows"] == [{"key": "1", "ns": 80_128_393}]
        assert "outside the folders" in await ask(client, "open", path=str(outside))
        assert "outside the folders" in await ask(client, "open", path=f"../../../../../{outside}")
        assert "no such view" in await ask(client, "table", path=LOG, view="nothing")
        assert "from 1 to 1,000,000" in await ask(client, "table", path=LOG, view="kernels", limit=10**30)
        assert "did you mean" in (await ask(client, "sql", path=LOG, query="SELECT cals FROM kernels")).lower()


async def test_a_wrong_request_is_answered_by_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.client import Client

    from tests.profiles import load

    monkeypatch.setattr(mcp_server, "load", lambda files, **_how: load(files))
    log = "gpt_summary.nvprof.log"
    async with Client(mcp_server.server([str(SAMPLES)])) as client:
        for tool, arguments, words in (
            ("table", {"path": log, "view": "tea"}, f"tea: no such view (views: {', '.join(ALL_REPORTS[1:-1])})"),
            ("sql", {"path": log, "query": "SELECT 1", "limit": 0}, "limit 0: expected a number from 1 to 1,000,000"),
            ("explain", {"path": log, "rule": "x99"}, f"x99: no such rule (rules: {', '.join(r.id for r in RULES)})"),
            ("open", {"path": "http://host/run.log"}, "http://host/run.log: outside the folders of this server"),
            (
                "open",
                {"path": "/dev/null"},
                "/dev/null: outside the folders of this server (`profiles` lists the available files)",
            ),
            ("open", {"path": "a\0b"}, "a\0b: cannot be opened (embedded null byte)"),
        ):
            assert await ask(client, tool, **arguments) == f"Error executing tool {tool}: {words}"


def test_links_that_lead_elsewhere_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside.log"
    inside.mkdir()
    outside.write_text("x")
    (inside / "link.log").symlink_to(outside)
    profiles = mcp_server.Profiles([str(inside)])
    for path in ("link.log", str(outside), "..", "s3://bucket/x", "-", "."):
        with pytest.raises(ProftuiError, match="outside the folders"):
            profiles.files(path)
    looked_into: list[str] = []
    monkeypatch.setattr("tui.analysis.found_profiles.detect_format", looked_into.append)
    assert profiles.list_folder(".").profiles == ()
    assert looked_into == []
    os.mkfifo(inside / "pipe")
    for path, why in (("pipe", "neither a file nor a folder"), ("a\0b", "cannot be opened"), ("x" * 9000, "opened")):
        with pytest.raises(ProftuiError, match=why):
            profiles.files(path)
    with pytest.raises(ProftuiError, match="no such folder"):
        mcp_server.Profiles([str(tmp_path / "nowhere")])


@pytest.mark.slow
async def test_every_tool_over_stdio() -> None:
    """As a client starts it: a process that speaks over its standard streams."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    root = str(Path(__file__).parents[2])
    program = StdioServerParameters(command=sys.executable, args=["-m", "tui", "mcp", str(SAMPLES)], cwd=root)
    async with asyncio.timeout(300), Client(program) as client:
        assert (await ask(client, "open", path=TORCH))["schema"] == "proftui.inspect/1"
        summary = await ask(client, "summary", path=TORCH, iterations="4:6")
        assert (summary["view"], summary["iterations"]) == ("dashboard", "4:6")
        assert (await ask(client, "findings", path=TORCH))["rows"]
        both = [f"ddp_ranks/ddp_rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
        worst = (await ask(client, "findings", path=both))["rows"][0]
        assert (worst["rule"], worst["cause"]) == ("C5", "unequal ranks")
        assert worst["problem"].startswith("Rank 1 is the straggler: ")
        slow, fast = (await ask(client, "table", path=both, view="ranks"))["rows"]
        assert (slow["session"], slow["came_last"]) == (1, 4)
        assert slow["compute_ns"] > 3 * fast["compute_ns"]
        changed = await ask(client, "diff", baseline=LOG, candidate=TORCH)
        assert changed["schema"] == "proftui.diff/1"
        assert len(changed["kernels"]) == 10
