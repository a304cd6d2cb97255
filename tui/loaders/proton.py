"""Reads the profiles of Triton's Proton: trees (``.hatchet``, JSON or MessagePack) and traces (``.chrome_trace``).

A tree has scopes around kernels.
Only kernels have times; that of a scope is the sum of its kernels. Below a kernel there may be its source lines, with
samples of the program counter, or scopes within the kernel, with clock cycles. FLOPs and bytes, if the program provides
them, are metrics of scopes or kernels. The last elements of the list are tables of the devices. Names of metrics differ
between versions: ``Time (ns)`` and ``DeviceId`` of 2024 are ``time (ns)`` and ``device_id`` since 2025.

A trace has each kernel with its start and its call stack, a list of scopes; since 3.7 also the scopes on the CPU.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from tui.correlation.launches import nest
from tui.loaders.base import Format, ProgressCallback, keep_going
from tui.loaders.chrome_trace.event_batches import Arg, ArgKind
from tui.loaders.chrome_trace.stream import looks_like_trace
from tui.loaders.collector import Collector, with_short_names
from tui.loaders.demangle import demangled
from tui.loaders.raw_input import read_bytes, read_json
from tui.model.errors import FORMATS_HINT, ProftuiError
from tui.model.schema import NAME
from tui.text import map_distinct, number_in, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.loaders.chrome_trace.event_batches import Trace
    from tui.loaders.collector import Value
    from tui.loaders.input_file import InputFile
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="proton",
    title="Triton Proton profile",
    recognized_by='a list, as JSON or MessagePack, whose first element has "children" and the frame ROOT; '
    'or trace events with a "call_stack" from ROOT',
    feeds=("sessions", "devices", "activities", "ops", "ranges", "summary", "metrics", "issues"),
    record_with="proton -n run script.py, or proton.start('run') ... proton.finalize()",
)

_PACKED: Final = re.compile(
    rb"(?:[\x91-\x9f]|\xdc..|\xdd....)\x83(?=\xa5frame\x82|\xa8children|\xa7metrics)", re.DOTALL
)
"""The beginning in MessagePack: a list whose first element has these three keys."""
_HEAD: Final = re.compile(rb'\s*\[\s*\{\s*"(?:children|frame|metrics)"')
_ROOT: Final = re.compile(rb'"name"\s*:\s*"ROOT"|"children"\s*:\s*\[')
_CALL_STACK: Final = re.compile(rb'"call_stack"\s*:\s*\[\s*"ROOT"')
_SOURCE_LINE: Final = re.compile(r".+:[0-9]+@.+")
"""A frame of the context "python": ``run.py:12@step``."""
_TRACE_ARGS: Final = (
    Arg("call_stack", ("call_stack",), ArgKind.TEXT),
    Arg("metrics", ("metrics",), ArgKind.TEXT),
)
_SCOPE_SEPARATOR: Final = " / "
"""The separator of the scopes of a path."""
_MAX_METRIC: Final = 1 << 53
_MAX_DEPTH: Final = 500
_NOT_WORK: Final = frozenset(
    ("time (ns)", "count", "device_id", "deviceid", "device_type", "devicetype", "cpu_time (ns)", "stream_id")
)
"""Metrics that are not amounts of work, in lower case."""


_WORK: Final = re.compile(r"flops(?:8|16|32|64)?|bytes")
"""Metrics of which the rate is of interest: over the GPU time of their scope."""


class ProtonLoader:
    """Reads the trees and traces of Proton."""

    formats: Final = (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Return a high confidence if a list begins with a node of a tree, or events have call stacks from ROOT."""
        if _PACKED.match(head) or (_CALL_STACK.search(head) and looks_like_trace(head)):
            return 1.0
        if not _HEAD.match(head) or not _ROOT.search(head):
            return 0.0
        return 0.9 if b'"frame"' in head and b'"metrics"' in head else 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the tree or trace.

        Raises:
            ProftuiError: It is neither JSON nor MessagePack, or nothing in it was measured.
        """
        if looks_like_trace(source.head):
            return _load_trace(source, on_progress)
        source.set_on_progress(on_progress)
        document = _unpacked(source) if _PACKED.match(source.head) else read_json(source)
        elements = document if isinstance(document, list) else []
        tree = _Tree()
        for element in elements:
            if isinstance(element, dict) and "children" in element:
                tree.add(element)
        if not tree.kernels and not tree.work:
            raise ProftuiError(f"{source.display_name}: no profile found: the tree has no measurements", FORMATS_HINT)
        collector = Collector(source.name)
        collector.open_session(FORMAT.name, None).facts.update(tool="Proton", framework="Triton")
        tree.add_to_collector(collector)
        _add_devices(elements, collector)
        collector.add_issues(source.notes)
        return collector.profile()


def _load_trace(source: InputFile, on_progress: ProgressCallback) -> Profile:
    """Read a trace: kernels, scopes on the CPU, and the sums of kernels by scope.

    Raises:
        ProftuiError: It has neither.
    """
    from tui.loaders.chrome_trace.read_trace import read_trace  # not needed to recognize a file

    # Until 3.6, each stream is a document of its own.
    trace = read_trace(source, _TRACE_ARGS, on_progress, is_one_trace=True)
    category = pl.col("cat").cast(pl.String)
    kernels = trace.complete.filter(category == "kernel")
    scopes = trace.complete.filter(category.is_in(["scope", "metric"]))
    if kernels.is_empty() and scopes.is_empty():
        raise ProftuiError(f"{source.display_name}: no profile found: a Proton trace without events", FORMATS_HINT)
    collector = Collector(source.name)
    collector.open_session(FORMAT.name, None).facts.update(tool="Proton", framework="Triton")
    tree = _Tree()
    branches = [*_sums_by_stack(kernels, is_timed=True), *_sums_by_stack(scopes, is_timed=False)]
    tree.add({"frame": {"name": "ROOT"}, "children": branches})
    tree.add_scopes(collector)
    tree.add_work(collector)
    activities, ops = _kernels_and_ops(kernels, trace)
    frames = {"activities": activities, "ops": ops, "ranges": _trace_ranges(scopes)}
    collector.add_frames({name: rows for name, rows in frames.items() if rows.height})
    if ops.height:
        reason = "the trace has the scopes of kernels, not their calls: calls are inferred from the order of kernels"
        collector.issue("info", None, "", reason)
    collector.add_issues([*source.notes, *trace.notes])
    return collector.profile(partial=trace.partial)


def _sums_by_stack(events: pl.DataFrame, *, is_timed: bool) -> list[dict[str, Any]]:
    """Return a branch of a tree for each distinct call stack and text of metrics, with the sums of its events."""
    stacks = events.group_by("call_stack", "metrics", maintain_order=True).agg(pl.len(), pl.col("duration_ns").sum())
    branches = []
    for stack, metrics, count, time_ns in stacks.rows():
        path = _stack_of(stack)
        if not path:
            continue
        figures = {name: value * count for name, value in _numbers_of(metrics).items()}
        node: dict[str, Any] = {"metrics": figures}
        if is_timed:
            node["metrics"] |= {"count": count, "time (ns)": time_ns}
        for name in reversed(path):
            node = {"children": [node | {"frame": {"name": name}}]}
        branches += node["children"]
    return branches


def _stack_of(text: str | None) -> list[str]:
    """Return the names of a call stack, without its root; empty if it is not recorded.

    >>> _stack_of('["ROOT","step","matmul"]')
    ['step', 'matmul']
    """
    try:
        names = msgspec.json.decode(text or "[]")
    except (msgspec.DecodeError, RecursionError):
        return []
    return [str(name) for name in names if name != "ROOT"] if isinstance(names, list) else []


def _numbers_of(text: str | None) -> dict[str, float]:
    """Return the metrics of an event, whose values are numbers as texts.

    >>> _numbers_of('{"flops":"1500.5","note":"x"}')
    {'flops': 1500.5}
    """
    try:
        metrics = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return {}
    items = metrics.items() if isinstance(metrics, dict) else ()
    return {name: float(value) for name, value in items if re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,9})?", str(value))}


def _scopes_of(stack: str | None, kernel: str | None) -> dict[str, str | None]:
    """Return the innermost scope around a kernel, the scopes around it and the source lines, as columns of ops.

    >>> _scopes_of('["ROOT","run.py:7@main","step","matmul","gemm"]', "gemm")
    {'scope': 'matmul', 'group': 'step', 'stack': 'run.py:7@main'}
    """
    names = _stack_of(stack)
    path = names[:-1] if names[-1:] == [kernel] else names
    lines = [name for name in path if _SOURCE_LINE.fullmatch(name)]
    scopes = [name for name in path if not _SOURCE_LINE.fullmatch(name)]
    return {
        "scope": next(iter([*scopes[-1:], *lines[-1:]]), None),
        "group": "/".join(scopes[:-1]) or None,
        "stack": ";".join(reversed(lines)) or None,
    }


def _kernels_and_ops(kernels: pl.DataFrame, trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the kernels, and their innermost scopes as ops.

    Kernels of a stream in turn are of one call of their scope, until the first of them comes again.
    """
    lanes = trace.names.filter(pl.col("name") == "thread_name").select(
        pl.col("tid").cast(pl.String), number_in(pl.col("value"), r"^GPU Stream ([0-9]{1,18})$").alias("named_stream")
    )
    tid = pl.col("tid").cast(pl.String)
    key = ["call_stack", "name"]
    distinct = kernels.select(key).unique(maintain_order=True)
    scopes = [_scopes_of(stack, name) for stack, name in distinct.rows()]
    places = distinct.hstack(pl.DataFrame(scopes, schema=dict.fromkeys(("scope", "group", "stack"), pl.String)))
    place = pl.struct("scope", "group", "stack", "stream")
    begins_run = pl.col("run") != pl.col("run").shift()
    begins_again = pl.col("is_first") & ~pl.col("is_first").shift()
    rows = (
        kernels.with_columns(tid)
        .join(lanes.unique("tid"), on="tid", how="left", maintain_order="left")
        .with_columns(stream=pl.coalesce("named_stream", tid.cast(pl.Int64, strict=False)))
        .join(places, on=key, how="left", nulls_equal=True, maintain_order="left")
        .sort("stream", "start_ns", maintain_order=True)
        .with_columns(run=(place != place.shift()).fill_null(value=True).cum_sum())
        .with_columns(is_first=pl.col("name") == pl.col("name").first().over("run"))
        .with_columns(call=(begins_run | begins_again).fill_null(value=True).cum_sum())
        .sort("start_ns", maintain_order=True)
    )
    ops = (
        rows.filter(pl.col("scope").is_not_null())
        .unique("call", keep="first", maintain_order=True)
        .with_row_index("op")
        .select("call", "op", name=pl.col("scope").cast(NAME), op_source=pl.lit("nvtx", NAME), line=pl.col("line"))
        .join(rows.select("call", pl.col("group", "stack").cast(NAME)).unique("call"), on="call", maintain_order="left")
    )
    join = pl.when(pl.col("op").is_null()).then(pl.lit("launched outside any op")).otherwise(pl.lit("recorded"))
    activities = (
        with_short_names(rows)
        .join(ops.select("call", "op"), on="call", how="left", maintain_order="left")
        .select(
            pl.lit("kernel", NAME).alias("kind"),
            *("name", "short_name", "start_ns", "duration_ns", "stream", "op", "line"),
            op_join=join.cast(NAME),
        )
    )
    return activities, ops.drop("call")


def _trace_ranges(scopes: pl.DataFrame) -> pl.DataFrame:
    """Return the scopes on the CPU; the names of events can end with metrics."""
    rows = scopes.select(
        map_distinct(scopes["call_stack"], lambda text: next(reversed(_stack_of(text)), None), NAME).alias("scope"),
        *("name", "start_ns", "duration_ns"),
        number_in(pl.col("pid").cast(pl.String), r"^([0-9]{1,18})$").alias("pid"),
        number_in(pl.col("tid").cast(pl.String), r"([0-9]{1,18})$").alias("tid"),
        "line",
    ).sort("start_ns", "duration_ns", descending=[False, True], maintain_order=True)
    return rows.select(
        pl.coalesce("scope", "name").alias("name"),
        *("start_ns", "duration_ns", "pid", "tid", "line"),
        depth=pl.Series(nest(rows).depth, dtype=pl.Int32),
    )


def _unpacked(source: InputFile) -> Any:
    try:
        return msgspec.msgpack.decode(read_bytes(source))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = str(error) or "nested too deep"
        hint = source.cut_short or "record it again"
        raise ProftuiError(f"{source.display_name}: not valid MessagePack: {problem}", hint) from error


class _Tree:
    """Sums over the tree."""

    def __init__(self) -> None:
        self.kernels: dict[str, _Sums] = {}
        """Launches and time of each kernel by name."""
        self._scopes: dict[str, _Sums] = {}
        """Launches and time of each path of scopes: a leaf counts in all enclosing scopes."""
        self._scope_sums: dict[tuple[str, str], _Sums] = {}
        """Launches and time of each kernel directly in a scope."""
        self.work: dict[tuple[str, str], float] = {}
        """FLOPs, bytes and other metrics by name of the kernel or path of the scope, and of the metric."""
        self._scope_work: dict[tuple[str, str], float] = {}
        """The same of each path of scopes, with all that is in it."""
        self._too_deep = 0

    def add(self, root: Mapping[str, Any]) -> None:
        """Add a tree."""
        stack: list[tuple[Mapping[str, Any], tuple[str, ...], int]] = [(root, (), -1)]
        nodes: list[tuple[Mapping[str, Any], tuple[str, ...], int]] = []
        """Metrics, path and number of the parent of each node; parents come before their children."""
        while stack:
            node, path, parent = stack.pop()
            name = _name(node)
            metrics = node.get("metrics")
            below = node.get("children")
            children = [child for child in below if isinstance(child, dict)] if isinstance(below, list) else []
            scope_path = path if not path and name == "ROOT" else (*path, name)
            if len(scope_path) > _MAX_DEPTH:
                self._too_deep += 1
                continue
            nodes.append((metrics if isinstance(metrics, dict) else {}, scope_path, parent))
            stack += [(child, scope_path, len(nodes) - 1) for child in reversed(children)]
        # Lines of a kernel, and scopes in it, have no times.
        has_kernels = [False] * len(nodes)
        for number in range(len(nodes) - 1, 0, -1):
            metrics, _, parent = nodes[number]
            has_kernels[parent] |= has_kernels[number] or _is_timed(metrics)
        for (metrics, scope_path, _), is_scope in zip(nodes, has_kernels, strict=True):
            is_kernel = bool(scope_path) and not is_scope and _is_timed(metrics)
            if is_kernel:
                self._leaf(scope_path, _integer_metric(metrics, "count"), _integer_metric(metrics, "time (ns)") or 0)
            self._add_work(metrics, scope_path, is_kernel)

    def _add_work(self, metrics: Mapping[str, Any], scope_path: tuple[str, ...], is_kernel: bool) -> None:
        for metric, value in metrics.items():
            if scope_path and str(metric).lower() not in _NOT_WORK and _is_number(value) and value:
                key = (scope_path[-1] if is_kernel else _SCOPE_SEPARATOR.join(scope_path), str(metric))
                self.work[key] = self.work.get(key, 0.0) + float(value)
                for depth in range(1, len(scope_path) + (not is_kernel)):
                    within = (_SCOPE_SEPARATOR.join(scope_path[:depth]), str(metric))
                    self._scope_work[within] = self._scope_work.get(within, 0.0) + float(value)

    def _leaf(self, path: tuple[str, ...], count: int | None, time_ns: int) -> None:
        *scopes, name = path
        _increase(self.kernels, name, count, time_ns)
        for depth in range(1, len(scopes) + 1):
            _increase(self._scopes, _SCOPE_SEPARATOR.join(scopes[:depth]), count, time_ns)
        if scopes:
            _increase(self._scope_sums, (_SCOPE_SEPARATOR.join(scopes), name), count, time_ns)

    def add_to_collector(self, collector: Collector) -> None:
        """Add the sums to the collector."""
        plain = demangled(self.kernels)
        for name, (count, time_ns) in self.kernels.items():
            collector.add("summary", _row("gpu", plain.get(name, name), count, time_ns))
        self.add_scopes(collector)
        for (path, name), (count, time_ns) in self._scope_sums.items():
            collector.add("summary", {**_row("nvtx", plain.get(name, name), count, time_ns), "range": path})
        self.add_work(collector)

    def add_scopes(self, collector: Collector) -> None:
        """Add the sums of scopes."""
        for path, (count, time_ns) in self._scopes.items():
            collector.add("summary", _row("nvtx", path, count, time_ns))

    def add_work(self, collector: Collector) -> None:
        """Add what the program says about scopes and kernels."""
        plain = demangled(self.kernels)
        for (name, metric), value in self.work.items():
            figures = dict.fromkeys(("min", "max", "avg", "total"), value)
            row: dict[str, Value] = {"kernel": plain.get(name, name), "metric": metric, "invocations": 1, **figures}
            collector.add("metrics", {**row, "unit": "B" if metric == "bytes" else None})
            time_ns = (self._scopes.get(name) or self.kernels.get(name) or (0, 0))[1]
            if time_ns and _WORK.fullmatch(metric):
                rate = self._scope_work.get((name, metric), value) * 1e9 / time_ns
                row |= {"metric": f"{metric} per second", **dict.fromkeys(("min", "max", "avg"), rate), "total": None}
                row["unit"] = "B/s" if metric == "bytes" else "FLOP/s"
                collector.add("metrics", row)
        if self._too_deep:
            reason = f"{plural(self._too_deep, 'scope')} nested deeper than {_MAX_DEPTH} levels skipped"
            collector.issue("warning", None, "", reason)


def _is_timed(metrics: Mapping[str, Any]) -> bool:
    """Return whether metrics are those of a kernel that ran."""
    time_ns = _integer_metric(metrics, "time (ns)")
    return time_ns is not None and bool(time_ns or _integer_metric(metrics, "count"))


_Sums = tuple[int | None, int]
"""Launches (None if those of a part are unknown) and time."""


def _increase(sums: dict[Any, _Sums], key: Any, count: int | None, time_ns: int) -> None:
    total, total_ns = sums.get(key, (0, 0))
    sums[key] = None if total is None or count is None else total + count, total_ns + time_ns


def _row(section: str, name: str, count: int | None, time_ns: int) -> dict[str, Value]:
    return {
        "section": section,
        "name": name,
        "calls": count or None,
        "total_ns": time_ns,
        "avg_ns": time_ns // count if count else None,
        "repaired": False,
    }


def _name(node: Mapping[str, Any]) -> str:
    frame = node.get("frame")
    name = frame.get("name") if isinstance(frame, dict) else None
    return name if isinstance(name, str) and name else "(no name)"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e300


def _integer_metric(metrics: Mapping[Any, Any], name: str) -> int | None:
    """Return a metric by its name in lower case, as a whole number."""
    for key, value in metrics.items():
        if str(key).lower() == name and _is_number(value) and value < _MAX_METRIC:
            whole: int = round(value)
            return whole
    return None


def _add_devices(elements: list[Any], collector: Collector) -> None:
    """Add the GPUs of the tables at the end of the list: ``{"CUDA": {"0": {"arch": "90", "num_sms": 132, ...}}}``."""
    for element in elements:
        if not isinstance(element, dict) or "children" in element:
            continue
        for kind, table in element.items():
            for number, facts in table.items() if isinstance(table, dict) else ():
                if not isinstance(facts, dict) or not re.fullmatch(r"[0-9]{1,4}", str(number)):
                    continue
                arch, sms = str(facts.get("arch", "")), facts.get("num_sms")
                is_cuda = kind == "CUDA" and re.fullmatch(r"[0-9]{2,3}", arch)
                row: dict[str, Value] = {
                    "device": int(number),
                    "compute_capability": f"{arch[:-1]}.{arch[-1]}" if is_cuda else None,
                    "name": None if is_cuda else arch or None,
                    "sm_count": sms if isinstance(sms, int) and 0 < sms < 1 << 31 else None,
                    "memory_bandwidth": _memory_bandwidth(facts) if is_cuda else None,
                }
                collector.add("devices", row)


def _memory_bandwidth(facts: Mapping[str, Any]) -> float | None:
    """Return the peak in bytes per second: two transfers of the width of the bus in each clock cycle.

    >>> _memory_bandwidth({"bus_width": 6144, "memory_clock_rate": 2619000})
    4022784000000.0
    """
    bits, clock_khz = facts.get("bus_width"), facts.get("memory_clock_rate")
    if not (isinstance(bits, int) and isinstance(clock_khz, int) and 0 < bits < 1 << 20 and 0 < clock_khz < 1 << 31):
        return None
    return 2 * bits / 8 * clock_khz * 1000
