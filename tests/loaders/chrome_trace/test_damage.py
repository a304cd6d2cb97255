"""Damage affects only the event that it hits, and is reported once for each kind, with counts."""

from __future__ import annotations

import gzip
import io
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.loaders.chrome_trace.documents import ARGS, kernel, read
from tui.loaders.chrome_trace.read_trace import read_trace
from tui.loaders.input_file import InputFile
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import Trace

Corpus = Callable[[str], str]


def between_events(damaged: str, *, separator: str = ",\n") -> str:
    """Return a document with an event before and one after another, which is inserted unchanged."""
    before, after = json.dumps(kernel(name="before")), json.dumps(kernel(name="after"))
    return '{"traceEvents": [\n' + separator.join([before, damaged, after]) + "\n]}"


def names(trace: Trace) -> list[str | None]:
    return trace.complete["name"].cast(pl.String).to_list()


def note_rows(trace: Trace) -> list[tuple[str, int | None, str]]:
    return [(note.severity, note.line, note.reason) for note in trace.notes]


def event(name: str = '"x"', args: str = "{}", more: str = "") -> str:
    return (
        f'{{"ph": "X", "cat": "kernel", "name": {name}, "pid": 0, "tid": 7, "ts": 11, "dur": 1{more}, "args": {args}}}'
    )


@pytest.mark.parametrize(
    ("damaged", "name", "reason"),
    [
        (event(r'"torch\cuda\nn.py"'), r"torch\cuda\nn.py", "info: 1 event has unescaped backslashes"),
        (event(r'"C:\\ok\x"'), r"C:\ok\x", "info: 1 event has unescaped backslashes"),
        (
            event('"lib = Library("_x", "IMPL")"'),
            'lib = Library("_x", "IMPL")',
            "warning: 1 event has unescaped quotation marks",
        ),
        (
            event('"config.py(0): \x02\x1f\n (1)"'),
            "config.py(0): \x02\x1f\n (1)",
            "info: 1 event has unescaped control",
        ),
        (
            event(r'"x, tid\": {a\": "').replace('"tid"', 'tid"').replace('"args"', 'args"'),
            'x, tid": {a": ',
            "info: 1 event has a key without its opening quotation mark: repaired",
        ),
        (event(args='{"correlation": 5, }'), "x", "info: 1 event has an extra comma"),
        (f"...\n{event()}", "x", "warning: 1 event follows a comment or an ellipsis"),
        (f"\N{HORIZONTAL ELLIPSIS},\n// kernels\n{event()}", "x", "warning: 1 event follows a comment"),
        (
            event(args='{"a": inf, "b": -nan, "c": "nan", "correlation": N/A}'),
            "x",
            "warning: 1 event has an invalid",
        ),
        (event(args='{"a": NaN, "b": [Infinity, 1]}'), "x", "warning: 1 event has an invalid number"),
        (
            event('"a: nan, \\" b", "inf": [nan'.replace("[nan", "nan")),
            'a: nan, " b',
            "warning: 1 event has an invalid",
        ),
    ],
)
def test_invalid_json_of_profilers_is_repaired(damaged: str, name: str, reason: str) -> None:
    trace = read(between_events(damaged))
    assert names(trace) == ["before", name, "after"]
    assert [f"{severity}: {text}"[: len(reason)] for severity, _, text in note_rows(trace)] == [reason]
    assert trace.complete["line"].to_list() == [2, 3, 4 + damaged.count("\n")]
    assert not trace.partial


@pytest.mark.parametrize(
    "damaged",
    [
        '{"ph": "X", "name": "x", "ts": 11, "dur"',
        '{"ph": "X", "name": "x" "ts": 11}',
        '{"ph": "X", "name": "x", "ts": 11, "args": {"grid": [1, 2}',
        event()[:-1],
        "\x00\x00\x00",
        '{"ph": "X", "name": "x, "ts": 11, "pid": [}',
        "garbage",
    ],
)
@pytest.mark.parametrize("separator", [",\n", ", "])
def test_an_event_beyond_repair_affects_no_other_event(damaged: str, separator: str) -> None:
    trace = read(between_events(damaged, separator=separator))
    assert names(trace)[0] == "before"
    assert names(trace)[-1] == "after"
    assert trace.complete.height == 2
    assert sum(severity == "error" for severity, _, _ in note_rows(trace)) == 1


def test_each_anomaly_is_reported_once_with_its_first_line() -> None:
    bad_escape = event(r'"a\q"')
    trace = read('{"traceEvents": [\n' + ",\n".join([event(), bad_escape, bad_escape, event()]) + "]}")
    assert note_rows(trace) == [
        (
            "info",
            3,
            "2 events have unescaped backslashes, read literally",
        )
    ]


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    document = between_events(event('"a?b"')).encode().replace(b"a?b", b"a\xffb")
    trace = read(document)
    assert names(trace) == ["before", "a\N{REPLACEMENT CHARACTER}b", "after"]
    assert note_rows(trace)[0][:2] == ("warning", 3)


def test_lone_surrogates_are_replaced() -> None:
    trace = read(between_events(event('"a\\ud800b"', args='{"Input Dims": "\\udfff"}')))
    assert (names(trace)[1], trace.complete["shapes"].cast(pl.String)[1]) == ("a?b", "?")


@pytest.mark.parametrize("damage", ["", "x"])
def test_lone_surrogates_outside_the_events_are_replaced(damage: str) -> None:
    members = '"deviceProperties": [{"name": "a\\ud800b", "k\\udfff": 1}], "host": "\\udc80"'
    trace = read(f'{{{members}, {damage}"traceEvents": [{event()}]}}')
    assert trace.metadata == {"deviceProperties": [{"name": "a\ufffdb", "k\ufffd": 1}], "host": "\ufffd"}


def test_numbers_beyond_64_bits_are_kept_as_text_or_not_at_all() -> None:
    args = '{"correlation": 15232984023467462656, "Input Dims": 15232984023467462656, "External id": 9007199254740993}'
    trace = read(between_events(event(args=args)))
    row = trace.complete.row(1, named=True)
    assert (row["correlation"], row["external_id"], row["shapes"]) == (None, 9007199254740993, "15232984023467462656")
    digits = "9" * 5000
    assert read(between_events(event(args=f'{{"correlation": {digits}}}'))).complete["correlation"].to_list() == [
        3,
        None,
        3,
    ]


def test_the_first_of_two_documents_is_read_and_the_second_reported() -> None:
    first, second = ('{"a": 1, "traceEvents": [' + json.dumps(kernel(name=name)) + '], "b": 2\n}' for name in "xy")
    for between in ("", "\n"):
        trace = read(first + between + second)
        assert names(trace) == ["x"]
        assert (trace.metadata["a"], trace.metadata["b"]) == (1, 2)
        ((severity, line, reason),) = note_rows(trace)
        assert (severity, line) == ("error", 2 + len(between))
        assert reason.startswith("a second trace begins on this line: only the first is read")


def test_braces_in_a_text_after_the_events_begin_no_second_document() -> None:
    trace = read('{"traceEvents": [' + event() + '], "command": "run {a} {b}", "rank": 3}')
    assert trace.metadata == {"command": "run {a} {b}", "rank": 3}
    assert list(trace.notes) == []


def test_a_document_that_ends_before_its_events_is_reported_as_truncated() -> None:
    with pytest.raises(ProftuiError, match=r"truncated or damaged before its event list \(traceEvents\)"):
        read('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Tesl')


def test_the_last_of_duplicate_keys_counts() -> None:
    trace = read(between_events(event(args='{"correlation": 1, "correlation": 2}', more=', "dur": 2, "dur": 3')))
    assert (trace.complete["correlation"][1], trace.complete["duration_ns"][1]) == (2, 3000)


def test_impossible_durations_are_unknown() -> None:
    week = 7 * 24 * 3600 * 10**6
    durations = ["-5", "7447680000000000.0", str(week), f"{week}.001", '"x"', "null", "2"]
    listed = [event().replace('"dur": 1', f'"dur": {duration}') for duration in durations]
    listed.append(event().replace(', "dur": 1', ""))
    trace = read(f'{{"traceEvents": [{", ".join(listed)}]}}')
    assert trace.complete["duration_ns"].to_list() == [week * 1000, 2000]
    assert [reason for _, _, reason in note_rows(trace)] == [
        "3 events have no readable duration: skipped",
        "3 events have implausible durations (negative, or over seven days): skipped",
    ]


def test_an_event_without_a_time_is_skipped() -> None:
    listed = [kernel(), kernel(ts=None), kernel(ts="soon"), kernel(ts=1e300)]
    trace = read(json.dumps(listed))
    assert trace.complete.height == 1
    assert note_rows(trace) == [("warning", 1, "3 events have no start time: skipped")]


def test_the_first_complete_event_is_the_origin() -> None:
    marks = [
        {"ph": "i", "name": "Record Window End", "ts": 1},
        {"ph": "M", "name": "process_name", "ts": 0, "args": {}},
    ]
    trace = read(json.dumps({"traceEvents": [*marks, kernel(ts=50)]}))
    assert (trace.origin_ns, trace.complete["start_ns"].to_list()) == (50_000, [0])
    assert trace.instants["start_ns"].to_list() == [-49_000]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_an_event_nested_ten_thousand_deep_is_skipped(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    deep = opening * 10_000 + "1" + closing * 10_000
    trace = read(between_events(event(args=f'{{"Input Dims": {deep}}}')))
    assert names(trace) == ["before", "after"]
    assert [reason for _, _, reason in note_rows(trace)] == ["1 event is nested too deep: skipped"]
    assert read(f'{{"deep": {deep}, "traceEvents": [{event()}]}}').complete.height == 1
    assert read(f'{{"traceEvents": [{event()}], "deep": {deep}}}').complete.height == 1


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("decodes", [True, False])
def test_nesting_at_the_depth_limit_affects_no_other_event(opening: str, decodes: bool) -> None:
    closing = "]" if opening == "[" else "}"
    for depth in (500, *range(940, 1010)):  # where the edge is depends on who calls
        deep = opening * depth + '"?"' + closing * depth
        thread_name = f'{{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {{"name": {deep}}}}}'
        document = between_events(event(args=f'{{"Input Dims": {deep}}}') + f", {thread_name}")
        for content in (document.encode(), document.replace('"?"', '"?\n"', 1).encode().replace(b"?", b"\xff")):
            assert [name for name in names(read(content, decodes=decodes)) if name != "x"] == ["before", "after"]


def test_a_huge_text_is_cut() -> None:
    trace = read(between_events(event(json.dumps("x" * 3_000_000))))
    assert [len(name or "") for name in names(trace)] == [6, 1 << 16, 5]
    assert [reason for _, _, reason in note_rows(trace)] == ["1 text exceeds the length limit of names: truncated"]


class TestLists:
    def test_an_unclosed_list_keeps_its_events(self) -> None:
        trace = read(f'{{"traceEvents": [{event()}, {event()}, {event()[:50]}')
        assert (trace.complete.height, trace.partial) == (2, "truncated after 2 events")
        assert note_rows(trace) == [
            (
                "error",
                None,
                "the file ends inside its event list: 2 events are shown; 50 B of a truncated event are skipped",
            )
        ]

    def test_a_bare_list_need_not_be_closed(self) -> None:
        trace = read(f"[{event()}, {event()},")
        assert (trace.complete.height, trace.partial, note_rows(trace)) == (2, "", [])

    def test_a_comma_after_the_last_event(self) -> None:
        trace = read(f'{{"traceEvents": [{event()}, ], "traceName": "x"}}')
        assert (trace.complete.height, trace.metadata) == (1, {"traceName": "x"})

    def test_a_bracket_too_many(self) -> None:
        trace = read(f'{{"traceEvents": [{event()}], {event()}], "traceName": "x"}}')
        assert (trace.complete.height, trace.metadata) == (2, {"traceName": "x"})

    def test_the_end_of_the_document_is_missing(self) -> None:
        trace = read(f'{{"schemaVersion": 1, "traceEvents": [{event()}], "traceName": "x", "rest": [1, ')
        assert (trace.complete.height, trace.partial) == (1, "")
        assert trace.metadata == {"schemaVersion": 1, "traceName": "x"}
        assert [severity for severity, _, _ in note_rows(trace)] == ["warning"]

    def test_entries_that_are_not_events(self) -> None:
        trace = read(f'[1, null, "x", [2], {event()}, {{}}]')
        assert trace.complete.height == 1
        assert [reason for _, _, reason in note_rows(trace)] == ["4 entries in the event list are not events: skipped"]

    def test_brackets_before_the_events_do_not_begin_the_list(self) -> None:
        head = json.dumps({"traceName": 'C:/]}, {"ph": [', "INFO": ["[a]", {"traceEvents": [1]}]})
        trace = read(head[:-1] + f', "traceEvents": [{event()}]}}')
        assert trace.complete.height == 1
        assert trace.metadata["INFO"] == ["[a]", {"traceEvents": [1]}]

    def test_two_lists_are_both_read(self) -> None:
        trace = read(f'{{"traceEvents": [{event()}], "a": 1, "traceEvents": [{event()}], "b": 2}}')
        assert (trace.complete.height, trace.metadata) == (2, {"a": 1, "b": 2})

    def test_damage_outside_the_events_loses_one_member(self) -> None:
        trace = read(f'{{"a": 1, "path": "C:\\x", "b": {{"c": 2}}, "traceEvents": [{event()}], "d": nan, "e": 3}}')
        assert {"a": 1, "b": {"c": 2}, "e": 3}.items() <= trace.metadata.items()
        assert [severity for severity, _, _ in note_rows(trace)] == ["warning"]


@pytest.mark.parametrize(
    ("document", "metadata"),
    [
        ('{"schemaVersion": 1, "traceEvents": []}', {"schemaVersion": 1}),
        ('{"schemaVersion": 1, "deviceProperties": [], "traceName": "x"}', None),
        ('{"traceEvents": null, "a": 1}', None),
        ("[]", {}),
        ("{}", {}),
    ],
)
def test_an_empty_trace_is_no_error(document: str, metadata: dict[str, Any] | None) -> None:
    trace = read(document)
    assert trace.metadata == (json.loads(document) if metadata is None else metadata)
    assert [frame.height for frame in (trace.complete, trace.instants, trace.flows, trace.names)] == [0, 0, 0, 0]
    assert trace.complete.schema == read(json.dumps([kernel()])).complete.schema


@pytest.mark.parametrize("document", ["nonsense", '"text"', "12", "\x00" * 100, "]["])
def test_other_content_is_an_error_that_names_the_file(document: str) -> None:
    with pytest.raises(ProftuiError, match=r"trace\.json"):
        read(document)


def test_a_truncated_gzip_gives_the_events_before_the_cut() -> None:
    packed = gzip.compress(json.dumps({"traceEvents": [kernel(name=f"k{n}") for n in range(5000)]}).encode())
    source = InputFile.open("trace.json.gz", stream=io.BytesIO(packed[: len(packed) // 2]))
    trace = read_trace(source, ARGS)
    assert 1000 < trace.complete.height < 5000
    assert trace.partial == f"truncated after {trace.complete.height:,} events"
    assert ["gzip stream ends early" in note.reason for note in source.notes] == [True]


class TestTimeIsLinear:
    """The time for each byte does not grow with the size: nothing is read repeatedly."""

    def seconds(self, document: str | bytes) -> float:
        used = time.process_time()
        read(document)
        return time.process_time() - used

    def is_linear(self, document: str | bytes, four_times: str | bytes) -> None:
        """Assert that a text four times as long takes less than sixteen times as long."""
        assert self.seconds(four_times) < 8 * self.seconds(document) + 0.5

    @pytest.mark.parametrize(
        "part",
        [
            '{"ph": "X", "args": [1, ',
            '{"ph": "X", "name": "',
            '{"ph": "X", "name": "a\\q}, ',
            '{"ph": "X", "ts": 1, "dur": 1, "args": {"a": [{"ph": 1}, ',
            "}, ",
            ", , ",
            '"',
            "\\",
            "[",
            "]",
            "{",
            "          ",
            '"a" ',
            "nan ",
        ],
    )
    def test_of_damage_everywhere(self, part: str) -> None:
        count = 50_000 // len(part)
        self.is_linear('{"traceEvents": [' + part * count, '{"traceEvents": [' + part * 4 * count)

    def test_of_a_text_longer_than_any_block(self) -> None:
        assert self.seconds(b'[{"ph": "X", "name": "' + b"x" * 50_000_000 + b'", "ts": 1, "dur": 1}]') < 20

    def test_of_a_long_preamble(self) -> None:
        begin, part, end = b'{"a": "', b'"traceEvents"  :', b'", "traceEvents": []}'
        self.is_linear(begin + part * 100_000 + end, begin + part * 400_000 + end)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("bad_durations.json", 9),
        ("bare_list.json", 8),
        ("control_char_in_name.json", 9),
        ("duplicate_keys.json", 8),
        ("inf_nan_values.json", 8),
        ("int_over_int64.json", 9),
        ("invalid_utf8.json", 8),
        ("legacy_autograd_profiler.json", 2),
        ("missing_footer.json", 8),
        ("trailing_comma.json", 8),
        ("truncated_gzip.json.gz", 7),
        ("truncated_mid_event.json", 7),
        ("unescaped_backslash.json", 9),
        ("unescaped_quotes_in_name.json", 9),
        ("unquoted_NA.json", 8),
    ],
)
def test_damaged_traces_of_other_tools(corpus: Corpus, name: str, rows: int) -> None:
    trace = read_trace(InputFile.open(corpus(f"kineto_broken/{name}")), ARGS)
    assert trace.complete.height == rows
    assert all(note.reason and note.severity in ("info", "warning", "error") for note in trace.notes)
