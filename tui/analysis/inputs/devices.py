"""What is known of the GPUs of a profile: from the input itself, from their names, or from what the user says."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.grouping import distinct
from tui.analysis.inputs.recording import Tool, tools_of
from tui.analysis.inputs.vendors import AMD, amd_sessions, is_amd_name
from tui.analysis.memo import once_per_profile
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

CLIPPED_LENGTH: Final = 15
"""nvprof cuts the device column of its text traces to so many characters."""

_VENDOR: Final = re.compile(r"\b(?:nvidia|geforce|tesla)\b")
_ORDINAL: Final = re.compile(r"\s*\(\d*\)?$")
_SAME_CHIP: Final = re.compile(r"^(?:\d+gb|pcie|sxm\d?|hbm\d?e?|generation|workstation|server|edition)$")
"""Words after a known name that do not make it another chip."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What a name says of a GPU: a row of ``gpus.toml``; None where cards of that name differ."""

    name: str
    """As ``GTX 680``: without NVIDIA, GeForce and Tesla."""
    compute_capability: str | None
    """As ``7.0``."""
    sm_count: int | None = None
    """Streaming multiprocessors."""
    bandwidth: int | None = None
    """Of its memory, in 10^9 bytes per second."""
    confidence: str | None = None
    """a: seen in a profile or a public source, b: data sheets, c: doubtful."""
    note: str = ""
    """What else is to be known of the row, in words."""


@cache
def known_gpus() -> tuple[Gpu, ...]:
    """The GPUs of ``gpus.toml``."""
    table = tomllib.loads(files("tui.data").joinpath("gpus.toml").read_text("utf-8"))
    return tuple(Gpu(**row) for row in table["gpus"])


def find_gpu(name: str) -> Gpu | None:
    """What is known of a GPU of this name, or None.

    A name of `CLIPPED_LENGTH` characters may be a longer one cut short: then only that is told on which all GPUs agree
    whose name begins so.

    >>> gpu = find_gpu("Tesla K40c (0)")
    >>> gpu.compute_capability, gpu.sm_count
    ('3.5', 15)
    >>> gpu = find_gpu("GeForce GTX 107")
    >>> gpu.compute_capability, gpu.sm_count
    ('6.1', None)
    >>> find_gpu("GeForce RTX 3070 Laptop GPU") is None
    True
    """
    bare = _ORDINAL.sub("", name)
    wanted = _normalised(bare)
    exact = _longest(wanted)
    if len(name) != CLIPPED_LENGTH:
        return exact
    begun = [gpu for gpu in known_gpus() if wanted and _normalised(gpu.name).startswith(wanted)]
    if exact is not None and exact not in begun:
        begun.append(exact)
    return _agreed(bare, begun)


def _normalised(name: str) -> str:
    return " ".join(_VENDOR.sub(" ", name.lower().replace("-", " ")).split())


def _longest(wanted: str) -> Gpu | None:
    words = wanted.split()
    by_words = {tuple(_normalised(gpu.name).split()): gpu for gpu in known_gpus()}
    for length in range(len(words), 0, -1):
        gpu = by_words.get(tuple(words[:length]))
        if gpu is not None:
            return gpu if all(_SAME_CHIP.match(word) for word in words[length:]) else None
    return None


def _agreed(name: str, gpus: Sequence[Gpu]) -> Gpu | None:
    capabilities = {gpu.compute_capability for gpu in gpus}
    if len(capabilities) != 1:
        return None
    if len(gpus) == 1:
        return gpus[0]
    counts, bandwidths = {gpu.sm_count for gpu in gpus}, {gpu.bandwidth for gpu in gpus}
    return Gpu(
        name,
        capabilities.pop(),
        counts.pop() if len(counts) == 1 else None,
        bandwidths.pop() if len(bandwidths) == 1 else None,
        max(gpu.confidence or "c" for gpu in gpus),
        "the name is cut short",
    )


_BEYOND_NVPROF: Final = 8.0
"""GPUs of this compute capability and above nvprof does not support."""


def tools_to_record(profile: Profile) -> tuple[Tool, ...]:
    """The tools that recorded a profile, and could again: Nsight Systems in place of nvprof for GPUs beyond it."""
    tools = tools_of(profile)
    if Tool.NVPROF not in tools or not is_beyond_nvprof(profile):
        return tools
    return tuple(dict.fromkeys(Tool.NSYS if tool is Tool.NVPROF else tool for tool in tools))


@once_per_profile("devices")
def is_beyond_nvprof(profile: Profile) -> bool:
    """Whether a GPU is known to be newer than nvprof supports."""
    told = profile["devices"].select("name", "compute_capability")
    named = [profile.gpu] if profile.gpu else told.filter(pl.col("compute_capability").is_null())["name"].to_list()
    found = [gpu.compute_capability for name in named if name and (gpu := find_gpu(name))]
    known = pl.concat([told["compute_capability"], pl.Series(found, dtype=pl.String)])
    return bool((known.cast(pl.Float64, strict=False) >= _BEYOND_NVPROF).any())


def device_facts(profile: Profile, *, gpu: str | None = None) -> pl.DataFrame:
    """What is known of each GPU that a session names or uses.

    Columns: session, device, name, compute_capability, sm_count, memory_bandwidth (bytes per second), memory_bytes,
    max_threads_per_sm, registers_per_sm, shared_memory_per_sm_bytes, facts_source (where the compute capability is
    from: file, option, table, or unknown), confidence (of the table), vendor (AMD, or null where nothing says so).
    What the input says stands; the rest is of the GPU that the user names, else of the device's own name. A GPU of
    AMD's has no compute capability: the numbers that a trace has in its place are of its architecture.

    Args:
        profile: Where to look.
        gpu: The name of the GPU, as the user gives it; that of the profile where it is left out.

    Raises:
        ProftuiError: Nothing is known of ``gpu``.
    """
    gpu = gpu or profile.gpu
    chosen = None if gpu is None else named_gpu(gpu)
    # Launches whose device cannot be read (a null) belong to some GPU: to the user's, or to one of unknown make.
    used = pl.concat([distinct(profile[frame], ("session", "device")) for frame in ("devices", "activities")]).unique()
    if chosen is not None:
        # So do totals, which name none.
        totals = profile["summary"].filter(pl.col("section") == "gpu").select("session").unique()
        used = pl.concat([used, totals.join(used, on="session", how="anti")], how="diagonal")
    rows = used.join(profile["devices"], on=["session", "device"], how="left", nulls_equal=True)
    of_amd = amd_sessions(profile)
    vendors = [
        AMD if session in of_amd or is_amd_name(name) or is_amd_name(capability) else None
        for session, name, capability in rows.select("session", "name", "compute_capability").iter_rows()
    ]
    facts = [
        _facts(name, chosen) if vendor is None else (None, "unknown")
        for name, vendor in zip(rows["name"].to_list(), vendors, strict=True)
    ]
    rows = rows.with_columns(pl.Series("vendor", vendors, dtype=pl.String)).with_columns(
        pl.when(pl.col("vendor").is_null()).then("compute_capability").alias("compute_capability")
    )
    table = pl.DataFrame(
        [
            (
                found.compute_capability if found else None,
                found.sm_count if found else None,
                found.bandwidth * 1e9 if found and found.bandwidth else None,
                source,
                found.confidence if found else None,
            )
            for found, source in facts
        ],
        schema={
            "cc": pl.String,
            "sms": pl.Int32,
            "rate": pl.Float64,
            "source": pl.String,
            "confidence": pl.String,
        },
        orient="row",
    )
    return (
        pl.concat([rows, table], how="horizontal")
        .select(
            "session",
            "device",
            "name",
            pl.coalesce("compute_capability", "cc"),
            pl.coalesce("sm_count", "sms"),
            pl.coalesce("memory_bandwidth", "rate"),
            "memory_bytes",
            "max_threads_per_sm",
            "registers_per_sm",
            "shared_memory_per_sm_bytes",
            pl.when(pl.col("compute_capability").is_not_null())
            .then(pl.lit("file"))
            .otherwise("source")
            .alias("facts_source"),
            "confidence",
            "vendor",
        )
        .sort("session", "device")
    )


def _facts(name: str | None, chosen: Gpu | None) -> tuple[Gpu | None, str]:
    if chosen is not None:
        return chosen, "option"
    found = find_gpu(name) if name else None
    return found, "table" if found else "unknown"


def named_gpu(name: str) -> Gpu:
    """What is known of the GPU that the user names.

    Raises:
        ProftuiError: Nothing is.
    """
    from difflib import get_close_matches

    if (known := find_gpu(name)) is not None:
        return known
    names = {_normalised(gpu.name): gpu.name for gpu in known_gpus()}
    near = get_close_matches(_normalised(name), names, n=3, cutoff=0.4)
    hint = "known names that are near: " + ", ".join(names[key] for key in near) if near else "as in --gpu 'Tesla K40c'"
    raise ProftuiError(f"--gpu {name}: nothing is known of a GPU of this name", hint)
