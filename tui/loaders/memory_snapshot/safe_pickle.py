"""Reads pickles that hold builtins alone; a pickle that names anything else is refused before anything is built.

A pickle is a program: it can import modules and call what is in them. `check` walks its opcodes first, without running
any, and lets those pass that build numbers, texts, lists, tuples, dicts and sets. The unpickler that runs afterwards
refuses every import once more. The numbers of the memo, for which the unpickler would make room at once, are checked
against the size of the pickle.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import struct
from typing import Any, Final, NoReturn

_PLAIN: Final = (
    # What has no argument: marks, containers, their items, None, true, false, the memo's next place.
    rb"[()\]}deltsua012N\x85-\x89\x8f-\x91\x94]"
    rb"|K.|M..|J....|G.{8}|q.|h.|j....|r..[\x00-\x0f]\x00|\x80.|\x95.{8}"
)
_COUNTED: Final = b"|".join(b"\\x%02x.{%d}" % (size, size) for size in range(256))
_RUN: Final = re.compile(
    rb"(?:%s|[\x8cUC\x8a](?:%s)|[IFLVS][^\n]{0,1000}\n|[pg]\d{1,6}\n)*+" % (_PLAIN, _COUNTED), re.DOTALL
)
"""Opcodes that are passed over at the speed of the regular expression engine."""

_SIZES: Final = {
    b"X": ("<I", 4),
    b"T": ("<i", 4),
    b"B": ("<I", 4),
    b"\x8b": ("<i", 4),
    b"\x8d": ("<Q", 8),
    b"\x8e": ("<Q", 8),
}
"""Opcodes with the number of bytes that follow: its form and its own size."""
_PUT: Final = b"r"
_STOP: Final = b"."
_NAMES: Final = {one.code.encode("latin-1"): one.name for one in pickletools.opcodes}
_LONGEST_ARGUMENT: Final = 1002
"""Bytes of an opcode that is passed over at once."""

_FAULTS: Final = (
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    EOFError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
    struct.error,
)
"""What the unpickler raises for damage."""


class UnsafePickleError(Exception):
    """A pickle wants something that is no builtin value; the message names it."""


class DamagedPickleError(Exception):
    """A pickle ends early or is damaged; the message says where."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position
        """Up to this byte it is sound."""


class _Builtins(pickle.Unpickler):
    """Builds builtins only."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError(f"{module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise UnsafePickleError("a persistent object")


class _SlowBuiltins(pickle._Unpickler):
    """The same in Python, so that what it has built can be looked at."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError(f"{module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise UnsafePickleError("a persistent object")


def load(data: bytes) -> Any:
    """What a pickle holds.

    Raises:
        UnsafePickleError: It names something to import, or builds what is no builtin value.
        DamagedPickleError: It ends early or is damaged.
    """
    check(data)
    try:
        return _Builtins(io.BytesIO(data)).load()
    except _FAULTS as error:
        raise DamagedPickleError(str(error) or type(error).__name__, len(data)) from error


def check(data: bytes) -> None:
    """Walk the opcodes of a pickle; none is run.

    Raises:
        UnsafePickleError: An opcode is not one of those that build builtin values.
        DamagedPickleError: It ends before its last opcode, or an argument cannot be true.
    """
    at = 0
    while True:
        found = _RUN.match(data, at)
        at = found.end() if found else at
        code = data[at : at + 1]
        if code == _STOP:
            return
        if code in _SIZES:
            form, width = _SIZES[code]
            argument = data[at + 1 : at + 1 + width]
            size = struct.unpack(form, argument)[0] if len(argument) == width else -1
            if not 0 <= size <= len(data) - at - 1 - width:
                raise DamagedPickleError("it ends within a value", at)
            at += 1 + width + size
        elif code == _PUT:
            if len(data) < at + 5 or int.from_bytes(data[at + 1 : at + 5], "little") > len(data):
                raise DamagedPickleError("it numbers more values than it can hold", at)
            at += 5
        else:
            _refuse(data, at, code)


def _refuse(data: bytes, at: int, code: bytes) -> NoReturn:
    known = _NAMES.get(code)
    could_be = _RUN.match(code + b"0" * 300 + b"\n") if known else None
    if known is None or (could_be is not None and could_be.end()):
        raise DamagedPickleError("it ends early" if len(data) - at < _LONGEST_ARGUMENT else "it is damaged", at)
    name = f"the opcode {known}"
    try:
        # All before is known to be harmless, and this opcode is refused by name where it imports anything.
        _Builtins(io.BytesIO(data[: at + 2048])).load()
    except UnsafePickleError as error:
        name = str(error)
    except _FAULTS:
        pass
    raise UnsafePickleError(name)


def load_beginning(data: bytes, end: int) -> Any:
    """What the beginning of a damaged pickle holds, as if all that is open at ``end`` were closed there.

    Only bytes that `check` has passed are run. None where nothing was built.
    """
    reader = _SlowBuiltins(io.BytesIO(data[:end]))
    try:
        reader.load()
    except (*_FAULTS, UnsafePickleError):
        pass
    levels = [*getattr(reader, "metastack", ()), getattr(reader, "stack", [])]
    for items, below in zip(reversed(levels), reversed(levels[:-1]), strict=False):
        container = below[-1] if below else None
        if isinstance(container, list):
            container.extend(items)
        elif isinstance(container, dict):
            if len(items) % 2 and len(items) > 2 and isinstance(items[-2], list):
                # The only item of a list is not marked off from it.
                items[-2].append(items[-1])
            pairs = zip(items[::2], items[1::2], strict=False)
            container.update((key, value) for key, value in pairs if isinstance(key, str))
    return levels[0][0] if levels and levels[0] else None
