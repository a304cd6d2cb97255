"""What job runners write in front of every line: the time in CI logs, the rank under mpirun and srun."""

from __future__ import annotations

import re
from typing import Final

_TAGS: Final = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ?",
    rb"\[\d{1,9},\d{1,9}\](?:\[[^\]\n]{1,80}\])?<std(?:err|out|diag)>:?",
    rb"\d{1,7}: ",
)
_PROFILE: Final = (
    rb"(?:==\d+== (?:NVPROF is|Profiling (?:app|result))|={8} Profiling"
    rb"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ caffe\.cpp:)"
)
_ANY: Final = re.compile(b"|".join(rb"^(%s)%s" % (tag, _PROFILE) for tag in _TAGS), re.MULTILINE)
_EVERY: Final = tuple(re.compile(rb"^" + tag, re.MULTILINE) for tag in _TAGS)


def tag_of(head: bytes) -> re.Pattern[bytes] | None:
    """What stands in front of the lines of a text that begins with ``head``, where a profile's line has such a tag.

    >>> tag = tag_of(b"[1,0]<stderr>:==7== Profiling result:")
    >>> tag.sub(b"", b"[1,1]<stderr>:  50.00%  1.0us")
    b'  50.00%  1.0us'
    >>> tag_of(b"0: hello") is None
    True
    """
    found = _ANY.search(head)
    return None if found is None or found.lastindex is None else _EVERY[found.lastindex - 1]
