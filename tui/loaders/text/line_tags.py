"""Tags in front of every line: times of CI logs, ranks of mpirun, names of containers."""

from __future__ import annotations

import re
from typing import Final

_TAGS: Final = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ?",
    rb"\[\d{1,9},\d{1,9}\](?:\[[^\]\n]{1,80}\])?<std(?:err|out|diag)>:?",
    rb"\d{1,7}: ",
)
_PROFILE: Final = (
    rb"(?:==\d+== (?:(?:NV|PG)PROF is|Profiling (?:app|result))|={8} Profiling"
    rb"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ caffe\.cpp:)"
)
_OTHER_PROFILE: Final = (
    rb"(?:[ \t]*\"?Time ?\(%\)\"?[ \t,]+\"?Total Time|[ \t]*\"?Start ?\([num]?s\)\"?[ \t,]"
    rb"|[ \t]*\*\* [^\n]{1,80} \(\w+\):|==(?:PROF|WARNING|ERROR)== |\"ID\",\"Process ID\")"
)
"""What nsys stats and ncu print: unlike nvprof's, their lines do not say which process they are of."""
_BEFORE_ALL: Final = re.compile(rb"^(%s|> ?)%s" % (_TAGS[0], _OTHER_PROFILE), re.MULTILINE)
_LABEL: Final = rb"(?:%s|%s|\[[A-Za-z_]{1,20}\d{1,6}\]: ?|[A-Za-z][\w.-]{0,60}[ \t]+\| ?)" % _TAGS[1:]
"""The rank or the container that a line is from."""
_LABELLED: Final = re.compile(rb"^(%s)%s" % (_LABEL, _OTHER_PROFILE), re.MULTILINE)

_ANY: Final = re.compile(b"|".join(rb"^(%s)%s" % (tag, _PROFILE) for tag in _TAGS), re.MULTILINE)
_EVERY: Final = tuple(re.compile(rb"^" + tag, re.MULTILINE) for tag in _TAGS)

_RESULTS: Final = (b"= Profiling result:", b"Total Time (ns)", b"==PROF== ")
_TITLE: Final = re.compile(rb"^([^\n]{1,120}?)(?:==\d+=|={7})= Profiling result:", re.MULTILINE)
_HEADER: Final = (
    rb"[ \t]*(?:(?:Type[ \t]+)?Time\(%\)[ \t]|\"Time\(%\)\"|\"Type\"|Start[ \t]+Duration|\"Start\"|\"Device\""
    rb"|No (?:kernels|API activities|events/metrics) were)"
)
"""What stands below the title of a result."""

_PASTE: Final = rb"[ \t]*+(?:\d+,|[#*>|%]+|(?://)+)?[ \t]*+"
_IN_A_PASTE: Final = re.compile(_PASTE)
"""What the readers of a format pass over themselves, where it is in front of a table."""

_WITHOUT_TAG: Final = re.compile(_PASTE + rb"(?:==\d+=|={7})")
_MOST_TRIED: Final = 16
"""Results of a block with something in front that is looked at."""

_PARTS: Final = re.compile(rb"\d+|[ \t]+|[^\d \t]+")
_NEAR: Final = 1 << 16
"""Bytes behind the title of a result in which its table begins."""


def tag_of(data: bytes) -> re.Pattern[bytes] | None:
    r"""What stands in front of the lines of a text, where a profile's lines have such a tag.

    It is known by its shape, or is the same, but for the numbers in it, before the title of a result and the header
    below. Where lines of several processes may alternate that do not say themselves whose they are, lines of others
    than the first match as a whole (`lines_of_others`).

    >>> tag = tag_of(b"[1,0]<stderr>:==7== Profiling result:")
    >>> tag.sub(b"", b"[1,1]<stderr>:  50.00%  1.0us")
    b'  50.00%  1.0us'
    >>> tag_of(b"gpu7 | ==7== Profiling result:\ngpu7 |   Start  Duration  Name").pattern
    b'^(?:gpu\\d+[ \\t]+\\|(?:\\ |$))'
    >>> tag_of(b"0: hello") is None
    True
    """
    found = _ANY.search(data)
    if found is not None and found.lastindex is not None:
        return _EVERY[found.lastindex - 1]
    if (found := _BEFORE_ALL.search(data)) is not None:
        return re.compile(rb"^(?:%s|> ?)" % _TAGS[0], re.MULTILINE)
    if (found := _LABELLED.search(data)) is not None:
        of_one = re.escape(found[1].rstrip())
        return re.compile(rb"^(?:%s ?|(?P<other>%s)[^\n]*)" % (of_one, _LABEL), re.MULTILINE)
    for title in _TITLE.finditer(data):
        if _IN_A_PASTE.fullmatch(title[1]):
            continue
        shape = _shape_of(title[1])
        if re.compile(rb"^" + shape + _HEADER, re.MULTILINE).search(data, title.end()):
            return re.compile(rb"^(?:" + shape + rb")", re.MULTILINE)
    return None


def later_tag(data: bytes) -> re.Pattern[bytes] | None:
    """The same of lines further down in a text, of which only those around results are looked at."""
    for result in _RESULTS:
        at, tried = -1, 0
        while tried < _MOST_TRIED and (at := data.find(result, at + 1)) >= 0:
            begin = data.rfind(b"\n", 0, at) + 1
            if _WITHOUT_TAG.fullmatch(data[begin:at][:_NEAR]):
                continue
            tried += 1
            if (tag := tag_of(data[begin : at + _NEAR])) is not None:
                return tag
    return None


def lines_of_others(tag: re.Pattern[bytes], data: bytes) -> list[bytes]:
    """What stands in front of lines that are left out, because a tag is that of another process; one of each line."""
    if "other" not in tag.groupindex:
        return []
    return [found["other"] for found in tag.finditer(data) if found["other"] is not None]


def _shape_of(tag: bytes) -> bytes:
    """A regular expression of a tag, whatever its numbers; blanks at its end may be missing where nothing follows."""
    parts = _PARTS.findall(tag)
    blanks = parts.pop() if tag[-1:] in b" \t" else b""
    shape = b"".join(rb"\d+" if part.isdigit() else rb"[ \t]+" if part.isspace() else re.escape(part) for part in parts)
    if tag[:1] in b" \t":
        shape = shape.replace(rb"[ \t]+", rb"[ \t]*", 1)
    return shape + (rb"(?:%s|$)" % re.escape(blanks) if blanks else b"")
