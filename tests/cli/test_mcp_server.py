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


async def call_tool(client: Client, tool: str, **arguments: Any) -> Any:
    """Return the answer of a tool, checked by its published schema, or the text of its error."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    if result.is_error:
        return content.text
    document = json.loads(content.text)
    name = document["schema"].removeprefix("proftui.").partition("/")[0]
    Draft202012Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text())).validate(document)
    return document


async def test_an_agent_finds_the_rows_behind_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer has the arguments of the next request; files outside the folder are not read."""
    from mcp.client import Client

    from tests.profiles import load

    monkeypatch.setattr(mcp_server, "load", lambda files, **_how: load(files))
    outside = tmp_path / "secret.log"
    outside.write_text((SAMPLES / LOG).read_text(errors="replace")[:20_000])
    async with Client(mcp_server.server([str(SAMPLES)])) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
        profiles = {Path(row["path"]).name: row for row in (await call_tool(client, "profiles"))["rows"]}
        assert profiles[LOG]["format"] == "nvprof-text"
        assert "contains profiles of different runs" in await call_tool(client, "open", path=".")
        ranks = await call_tool(client, "open", path=[f"ddp_ranks/ddp_rank{rank}.pt.trace.json.gz" for rank in (0, 1)])
        assert [(Path(session["file"]).name[:9], session["rank"]) for session in ranks["sessions"]] == [
            ("ddp_rank0", 0),
            ("ddp_rank1", 1),
        ]
        contents = await call_tool(client, "open", path=LOG)
        assert contents["schema"] == "proftui.inspect/1"
        assert contents["sources"][0]["bytes"] == (SAMPLES / LOG).stat().st_size
        assert contents["sessions"][0]["frames"]["activities"]["rows"] == 4630
        assert contents["views"]["kernels"] == "ok"
        findings = await call_tool(client, "findings", path=LOG)
        worst = findings["rows"][0]
        assert worst["severity"] in ("error", "warning")
        rule = worst["rule"]
        assert worst["all_rules"].split()[0] == rule
        explanation = await call_tool(client, "explain", path=LOG, rule=rule)
        assert explanation["about"]["rule"] == rule
        assert explanation["rows"][0]["numbers"]
        kernels = await call_tool(client, "table", path=LOG, view="kernels", sort="-total_ns", limit=2)
        assert (len(kernels["rows"]), kernels["total_rows"], kernels["truncated"]) == (2, {"rows": 80}, True)
        key = kernels["rows"][0]["key"]
        launches = await call_tool(client, "table", path=LOG, view="kernels", name="launches", above=[key], limit=1)
        assert launches["total_rows"]["rows"] == kernels["rows"][0]["calls"]
        total = await call_tool(client, "sql", path=LOG, query="SELECT SUM(duration_ns) AS ns FROM activities")
        assert total["rows"] == [{"key": "1", "ns": 80_128_393}]
        assert "outside the folders" in await call_tool(client, "open", path=str(outside))
        assert "outside the folders" in await call_tool(client, "open", path=f"../../../../../{outside}")
        assert "no such view" in await call_tool(client, "table", path=LOG, view="nothing")
        assert "from 1 to 1,000,000" in await call_tool(client, "table", path=LOG, view="kernels", limit=10**30)
        assert "did you mean" in (await call_tool(client, "sql", path=LOG, query="SELECT cals FROM kernels")).lower()


async def test_an_invalid_request_is_an_error_that_lists_valid_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.client import Client

    from tests.profiles import load

    monkeypatch.setattr(mcp_server, "load", lambda files, **_how: load(files))
    log = "gpt_summary.nvprof.log"
    async with Client(mcp_server.server([str(SAMPLES)])) as client:
        for tool, arguments, message in (
            ("table", {"path": log, "view": "tea"}, f"tea: no such view (views: {', '.join(ALL_REPORTS[1:-1])})"),
            ("sql", {"path": log, "query": "SELECT 1", "limit": 0}, "limit 0: expected a number from 1 to 1,000,000"),
            (
                "explain",
                {"path": log, "rule": "x99"},
                f"x99: no such rule (rules: {', '.join(rule.id for rule in RULES)})",
            ),
            ("open", {"path": "http://host/run.log"}, "http://host/run.log: outside the folders of this server"),
            (
                "open",
                {"path": "/dev/null"},
                "/dev/null: outside the folders of this server (`profiles` lists the available files)",
            ),
        ):
            assert await call_tool(client, tool, **arguments) == f"Error executing tool {tool}: {message}"


def test_links_to_other_folders_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside.log"
    inside.mkdir()
    outside.write_text("x")
    (inside / "link.log").symlink_to(outside)
    profiles = mcp_server.Profiles([str(inside)])
    for path in ("link.log", str(outside), "..", "s3://bucket/x", "-", "."):
        with pytest.raises(ProftuiError, match="outside the folders"):
            profiles.files(path)
    opened: list[str] = []
    monkeypatch.setattr("tui.analysis.found_profiles.detect_format", opened.append)
    assert profiles.list_folder(".").profiles == ()
    assert opened == []
    os.mkfifo(inside / "pipe")
    for path, reason in (("pipe", "neither a file nor a folder"), ("a\0b", "cannot be opened"), ("x" * 9000, "opened")):
        with pytest.raises(ProftuiError, match=reason):
            profiles.files(path)
    with pytest.raises(ProftuiError, match="no such folder"):
        mcp_server.Profiles([str(tmp_path / "nowhere")])


@pytest.mark.slow
async def test_every_tool_over_stdio() -> None:
    """The server runs as a process and uses its standard streams."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    root = str(Path(__file__).parents[2])
    program = StdioServerParameters(command=sys.executable, args=["-m", "tui", "mcp", str(SAMPLES)], cwd=root)
    # By default, errors go to what was standard error when the client was imported: perhaps that of an earlier test.
    transport = stdio_client(program, errlog=sys.__stderr__)
    async with asyncio.timeout(300), Client(transport) as client:
        assert (await call_tool(client, "open", path=TORCH))["schema"] == "proftui.inspect/1"
        summary = await call_tool(client, "summary", path=TORCH, iterations="4:6")
        assert (summary["view"], summary["iterations"]) == ("dashboard", "4:6")
        assert (await call_tool(client, "findings", path=TORCH))["rows"]
        rank_files = [f"ddp_ranks/ddp_rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
        worst = (await call_tool(client, "findings", path=rank_files))["rows"][0]
        assert (worst["rule"], worst["cause"]) == ("C5", "rank imbalance")
        assert worst["problem"].startswith("Rank 1 is the straggler: ")
        slow, fast = (await call_tool(client, "table", path=rank_files, view="ranks"))["rows"]
        assert (slow["session"], slow["came_last"]) == (1, 4)
        assert slow["compute_ns"] > 3 * fast["compute_ns"]
        comparison = await call_tool(client, "diff", baseline=LOG, candidate=TORCH)
        assert comparison["schema"] == "proftui.diff/1"
        assert len(comparison["kernels"]) == 10
