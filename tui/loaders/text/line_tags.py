"""Tags before the lines of a text: what a job runner, a container or a logger writes in front of each line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE_TAGS: Final = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ?",
    rb"\[\d{1,9},\d{1,9}\](?:\[[^\]\n]{1,80}\])?<std(?:err|out|diag)>:?",
    rb"\d{1,7}: ",
)
_MPIRUN, _SRUN = 1, 2
_PROFILE: Final = (
    rb"(?:==\d+== (?:(?:NV|PG)PROF is|Profiling (?:app|result))|={8} Profiling"
    rb"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ caffe\.cpp:)"
)
_NSYS_OR_NCU_OUTPUT: Final = (
    rb"(?:[ \t|]*\"?Time(?: ?\(%\))?\"?[ \t,|]+\"?Total Time|[ \t]*\"?Start ?\([num]?s\)\"?[ \t,]"
    rb"|[ \t]*\*\* [^\n]{1,80} \(\w+\):|==(?:PROF|WARNING|ERROR)== "
    rb"|[ \t]*(?:\"ID\",\"Process ID\"|\"Process ID\",\"Process Name\"))"
)
"""Output of nsys stats and ncu: unlike nvprof's, their lines do not name their process."""
_TIME_TAGGED: Final = re.compile(
    rb"^(?:%s|(?P<quote>[ \t]*(?:>|//+|#+|\*)) ?)%s" % (_LINE_TAGS[0], _NSYS_OR_NCU_OUTPUT), re.MULTILINE
)
"""Output behind a time, in a quote, or in a comment."""
_LABEL: Final = rb"(?:%s|%s|\[[A-Za-z_]{1,20}\d{1,6}\]: ?|[A-Za-z][\w.-]{0,60}[ \t]+\| ?)" % _LINE_TAGS[1:]
"""The rank or the container of a line."""
_LABELED: Final = re.compile(rb"^(%s)%s" % (_LABEL, _NSYS_OR_NCU_OUTPUT), re.MULTILINE)

_TAGGED_PROFILE: Final = re.compile(b"|".join(rb"^(%s)%s" % (tag, _PROFILE) for tag in _LINE_TAGS), re.MULTILINE)
_TAG_PATTERNS: Final = tuple(re.compile(rb"^" + tag, re.MULTILINE) for tag in _LINE_TAGS)

_RESULTS: Final = (b"= Profiling result:", b"Total Time", b"==PROF== ")
"""Texts in the first line of each result of nvprof, nsys stats and ncu."""
_OTHER_RESULTS: Final = (b" ===", b"[ns] ", b'"Calls","TotalDurationNs"', b'"Kind","Agent_Id"')
"""The same of unitrace and trtexec, of unitrace's timeline, and of rocprof's CSV."""
_PLAIN_NVPROF: Final = re.compile(rb"^(?:==\d+== |={8} |[ \t]*+Start[ \t]+Duration )", re.MULTILINE)
_HEADER: Final = (
    rb"[ \t]*(?:(?:Type[ \t]+)?Time\(%\)[ \t]|\"Time\(%\)\"|\"Type\"|Start[ \t]+Duration|\"Start\"|\"Device\""
    rb"|(?:\")?Invocations\b|No (?:kernels|API activities|events/metrics) were)"
)
"""Headers below the title of a result of nvprof."""
_TIMELINE: Final = rb"(?:<PID:\d+> )?(?:Thread \d+ Device [^\n]{1,80}? : |Device Timeline \(queue: )"
_TITLES: Final = {
    "nvprof": (rb"(?:==\d+=|={7})= Profiling result:", _HEADER),
    "timing": (
        rb"=== (?:Device|API) Timing (?:Summary|Results:) ===",
        rb"[ \t]*(?:Total [\w ]+ \(ns\): |== [\w ]+ Backend|== Backend |(?:Kernel|Function), )",
    ),
    "timeline": (_TIMELINE, _TIMELINE),
    "trtexec": (
        rb"(?:\[[\d/: -]{6,30}\] )?(?:\[[A-Z]\] )?=== Profile \(\d+ iterations ?\) ===",
        rb"(?:\[[^\]\n]{1,30}\] )*[ \t]*(?:Layer|Time ?\(ms\))",
    ),
    "stats": (rb"[ \t]*\*\* [^\n]{1,80} \(\w+\):", rb"[ \t]*\"?(?:Time ?\(%\)|Start ?\([num]?s\))"),
    "ascend": (
        rb"(?:Device_id,|Step Id,|Op Name,|OP Type,|Level,API Name,|Component,Timestamp|Name,Size\(KB\),|Step,Comp"
        rb"|Step,Type,|Stream Id,Task Id,|Name,(?:Input Shapes|Type),)",
        rb"[^\n,]*,",
    ),
    "ncu": (rb"\"ID\",\"Process ID\",", rb"\"\d*\",\""),
    "ncu_text": (
        rb"==PROF== (?:Connected to |Profiling \")",
        rb"(?:==PROF== |[ \t]+[^\n]{1,400}\(\d+, \d+, \d+\)x\(\d)",
    ),
    "rocprof": (
        rb"(?:\"Name\",\"Calls\",\"TotalDurationNs\"|\"(?:Guid\",\")?Kind\",\"|\"Domain\",\"Function\"|Index,KernelName,gpu-id,)",
        rb"(?:\"|\d+,)[^\n]*,",
    ),
    "rocprof_summary": (rb"\| +NAME +\| +DOMAIN +\|", rb"\|-+\|"),
    "stats_csv": (rb"(?:Time ?\(%\),Total Time ?\(\w+\)|Start ?\(\w+\),Duration ?\(\w+\)),", rb"\d+(?:\.\d+)?,"),
}
"""What begins a result of each tool, and the next line of it that its tag must begin as well."""
_TITLE: Final = re.compile(
    rb"^(?P<tag>[^\n]{1,120}?)(?:%s)"
    % b"|".join(rb"(?P<%s>%s)" % (name.encode(), title) for name, (title, _) in _TITLES.items()),
    re.MULTILINE,
)

_PASTE_PREFIX: Final = rb"[ \t]*+(?:\d+,|[#*>|%]+|(?://)+)?[ \t]*+"
_SKIPPED_BY_READER: Final = {"nvprof": re.compile(_PASTE_PREFIX), "ncu": None, "rocprof": None, "stats_csv": None}
"""Prefixes of pasted text, which the readers of formats skip themselves; those of others skip blanks."""
_BLANKS: Final = re.compile(rb"[ \t]*")

_UNTAGGED_TITLE: Final = re.compile(
    _PASTE_PREFIX + rb"(?:==\d+=|={7})|[ \t]*(?:=== |Thread \d|Device Timeline )[^\n]*|[ \t]*"
)
_MAX_TRIED: Final = 16
"""The maximum number of titles with a prefix that are tried in a block."""

_NUMBER: Final = re.compile(rb"\d+")
_TIME_OR_NUMBER: Final = re.compile(rb"\d+(?:[-:.,/T ]\d+){2,}Z?|\d{9,}(?:\.\d+)?")
"""A time, or a count of seconds or more: it differs from line to line of one process."""
_ANY_TIME: Final = rb"\d+(?:[-:.,/T ]\d+)*Z?"
_WORDS: Final = re.compile(rb"[ \t]+|[^ \t]+")
_HEADER_DISTANCE: Final = 1 << 16
"""The table of a result begins within this many bytes after its title."""


@dataclass(frozen=True, slots=True)
class Tag:
    """What a job runner, a container or a logger writes in front of each line of a text."""

    pattern: re.Pattern[bytes]
    """Matches the tag at the beginning of a line, and lines of other processes as a whole."""
    process_pattern: bytes = b""
    """The regular expression of the tag of this process; empty if lines of several processes need no separation."""
    text: bytes = b""
    """The tag of one line."""

    def remove_from(self, data: bytes) -> bytes:
        """Return whole lines without their tags; lines of other processes become empty."""
        return self.pattern.sub(b"", data)


def _process_tag(process_pattern: bytes, any_pattern: bytes, text: bytes) -> Tag:
    return Tag(
        re.compile(rb"^(?:%s|(?:%s)[^\n]*)" % (process_pattern, any_pattern), re.MULTILINE), process_pattern, text
    )


def _known_tag(shape: int, text: bytes, data: bytes) -> Tag:
    """Return the tag of one of the shapes in `_LINE_TAGS`: a time, the rank of mpirun, or the rank of srun."""
    if shape == _MPIRUN:
        # nvprof writes to both streams.
        rank = re.escape(text[: text.index(b"]") + 1])
        return _process_tag(rank + _LINE_TAGS[shape].partition(rb"\]")[2], _LINE_TAGS[shape], text)
    if shape == _SRUN and data.count(b"\n" + text):
        return _process_tag(re.escape(text), _LINE_TAGS[shape], text)
    return Tag(_TAG_PATTERNS[shape])  # a time, or the numbers of lines


def find_tag(data: bytes) -> Tag | None:
    r"""Return the tag before each line of a text, if the lines of a profile have one.

    A tag is recognized by its shape, or is the same, except for numbers, before the title of a result and the header
    below. If lines of several processes may alternate without naming their process, it is that of the first one.

    >>> tag = find_tag(b"[1,0]<stderr>:==7== Profiling result:")
    >>> tag.remove_from(b"[1,0]<stdout>:  50.00%  1.0us"), tag.remove_from(b"[1,1]<stderr>:  50.00%  1.0us")
    (b'  50.00%  1.0us', b'')
    >>> find_tag(b"gpu7 | ==7== Profiling result:\ngpu7 |   Start  Duration  Name").process_pattern
    b'gpu7[ \\t]+\\|(?:\\ |$)'
    >>> find_tag(b"0: hello") is None
    True
    """
    match = _TAGGED_PROFILE.search(data)
    if match is not None and match.lastindex is not None:
        return _known_tag(match.lastindex - 1, match[match.lastindex], data)
    if (match := _TIME_TAGGED.search(data)) is not None:
        quote = rb"|%s ?" % re.escape(match["quote"]) if match["quote"] else b""
        return Tag(re.compile(rb"^(?:%s%s)" % (_LINE_TAGS[0], quote), re.MULTILINE))
    if (match := _LABELED.search(data)) is not None:
        is_number = _TAG_PATTERNS[_SRUN].fullmatch(match[1]) is not None
        if is_number and len(re.findall(rb"^" + re.escape(match[1]), data, re.MULTILINE)) == 1:
            return Tag(_TAG_PATTERNS[_SRUN])  # the numbers of lines
        return _process_tag(rb"%s ?" % re.escape(match[1].rstrip()), _LABEL, match[1])
    for title in _TITLE.finditer(data):
        tool = title.lastgroup or ""
        skipped = _SKIPPED_BY_READER.get(tool, _BLANKS)
        if skipped is not None and skipped.fullmatch(title["tag"]):
            continue
        header = _TITLES[tool][1]
        any_shape, process_shape = _tag_shape(title["tag"]), _tag_shape(title["tag"], _TIME_OR_NUMBER)
        if re.compile(rb"^" + process_shape + header, re.MULTILINE).search(data, title.end()):
            return _process_tag(process_shape, any_shape, title["tag"])
        if re.compile(rb"^" + any_shape + header, re.MULTILINE).search(data, title.end()):
            return Tag(re.compile(rb"^(?:" + any_shape + rb")", re.MULTILINE))
    return None


_MAX_PROCESSES: Final = 256
"""The maximum number of processes in a text whose lines are separated."""


class Processes:
    r"""Separates the lines of the processes of a text, by their tags, as far as they hold results.

    >>> processes = Processes(find_tag(b"0: === Device Timing Summary ===\n0: Kernel, Calls"))
    >>> text = b"0: Kernel, Calls\n1: === Device Timing Summary ===\n2: loss\nloss\n1: Kernel, Calls\n"
    >>> [lines for _tag, lines in processes.separate(text)]
    [b'Kernel, Calls\n\n\nloss\n\n', b'\n=== Device Timing Summary ===\n\n\nKernel, Calls\n']
    """

    def __init__(self, first: Tag) -> None:
        self._tags = [first]

    def separate(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return whole lines without tags for each process, with a tag of it; the lines of others are empty.

        Lines without a tag are those of the first process.
        """
        first_tag = self._tags[0]
        if not first_tag.process_pattern:
            return [(first_tag.text, first_tag.remove_from(data))]
        unassigned = _remove_lines(self._tags, data)
        while len(self._tags) < _MAX_PROCESSES and (tag := find_tag(unassigned)) is not None:
            remaining = _remove_lines([tag], unassigned)
            if not tag.process_pattern or remaining == unassigned:
                break
            self._tags.append(tag)
            unassigned = remaining
        other_tags = self._tags[1:]
        separated = [
            (tag.text, re.sub(rb"^(?:%s|[^\n]*)" % tag.process_pattern, b"", data, flags=re.MULTILINE))
            for tag in other_tags
        ]
        return [(first_tag.text, first_tag.remove_from(_remove_lines(other_tags, data))), *separated]


def _remove_lines(tags: Sequence[Tag], data: bytes) -> bytes:
    patterns = b"|".join(tag.process_pattern for tag in tags)
    return re.sub(rb"^(?:%s)[^\n]*" % patterns, b"", data, flags=re.MULTILINE) if patterns else data


_RANK_OF_TAG: Final = re.compile(rb"(?<![a-zA-Z])rank[-_.= ]?(\d{1,6})(?!\d)|^\[\d{1,9},(\d{1,6})\]", re.IGNORECASE)


def rank_in_tag(tag: bytes) -> int | None:
    """Return the rank that a tag names, as torchrun and mpirun write it; None if it names none.

    >>> rank_in_tag(b"[rank3]: "), rank_in_tag(b"[1,0]<stdout>:"), rank_in_tag(b"gpu3 | ")
    (3, 0, None)
    """
    match = _RANK_OF_TAG.search(tag)
    return None if match is None else int(match[1] or match[2])


def is_plain_nvprof(head: bytes) -> bool:
    """Return whether a text begins with output of nvprof without tags, which may be large.

    >>> is_plain_nvprof(b"==7== NVPROF is profiling"), is_plain_nvprof(b"0: ==7== NVPROF is profiling")
    (True, False)
    """
    return _PLAIN_NVPROF.search(head) is not None


def find_later_tag(data: bytes, *, is_nvprof: bool = False) -> Tag | None:
    """Return the tag of later lines of a text, as `find_tag`; only lines near results are searched.

    Args:
        data: Whole lines.
        is_nvprof: Whether the text is one of nvprof: results of unitrace and trtexec are not searched for.
    """
    for result in _RESULTS if is_nvprof else (*_RESULTS, *_OTHER_RESULTS):
        position, tried = -1, 0
        while tried < _MAX_TRIED and (position := data.find(result, position + 1)) >= 0:
            line_start = data.rfind(b"\n", 0, position) + 1
            if _UNTAGGED_TITLE.fullmatch(data[line_start:position][:_HEADER_DISTANCE]):
                continue
            tried += 1
            if (tag := find_tag(data[line_start : position + _HEADER_DISTANCE])) is not None:
                return tag
    return None


def _tag_shape(tag: bytes, varying: re.Pattern[bytes] = _NUMBER) -> bytes:
    """Return the pattern of a tag with any numbers or times; blanks at its end are optional at the line's end."""
    bare = tag.rstrip(b" \t")
    blanks = tag[len(bare) :]
    shape, end = b"", 0
    for match in (*varying.finditer(bare), None):
        fixed = bare[end : match.start() if match else len(bare)]
        shape += b"".join(rb"[ \t]+" if part.isspace() else re.escape(part) for part in _WORDS.findall(fixed))
        if match:
            shape, end = shape + (rb"\d+" if match[0].isdigit() else _ANY_TIME), match.end()
    if tag[:1] in b" \t":
        shape = shape.replace(rb"[ \t]+", rb"[ \t]*", 1)
    return shape + (rb"(?:%s|$)" % re.escape(blanks) if blanks else b"")
