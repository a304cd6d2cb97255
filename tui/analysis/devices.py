"""Facts about the GPUs of a profile: from the input, from their names, or from --gpu; their vendor and their peaks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl

from tui.analysis.grouping import distinct_rows
from tui.analysis.memo import once_per_profile
from tui.analysis.needs import Tool, recording_tool, recording_tools
from tui.data.user_files import HINT, Stamp, parse_user_file, read_shipped, stamp, tables, user_file_path, user_text
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

AMD: Final = "AMD"

_AMD_NAME: Final = re.compile(
    r"\b(?:amd|radeon|instinct|firepro|gfx[0-9]+\w*|mi[0-9]{2,3}\w?|vega|navi)\b|^(?:arcturus|aldebaran)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """A manufacturer of GPUs other than NVIDIA."""

    name: str
    facts: str = ""
    """A pattern of words in the facts of its sessions."""
    calls: str = ""
    """A pattern of the names of its API calls; empty if there is none."""
    kernels: str = ""
    """A pattern of the names of kernels of its libraries; empty if there is none."""
    tool: Tool | None = None
    """The profiler for all its GPUs."""
    api: str = "API"
    """The name of its API."""
    ranges: str = ""
    """Its name for NVTX."""
    torch_terms: tuple[tuple[str, str], ...] = ()
    """The names in PyTorch's commands that differ from those for CUDA; empty if there is no such command."""


def _torch_terms(activity: str, memory: str = "") -> tuple[tuple[str, str], ...]:
    """Return PyTorch's names for a kind of devices: the activity of its profiler, and the module of its allocator."""
    return (
        ("ProfilerActivity.CUDA", activity and f"ProfilerActivity.{activity}"),
        ("torch.cuda.", memory and f"torch.{memory}."),
    )


VENDORS: Final = (
    Vendor(
        AMD,
        r"\b(?:rocm|hip|roctracer|rocprofiler|rocprof\w*|miopen|amd)\b",
        r"^hip[A-Z]",
        r"^Cijk_",
        Tool.ROCPROF,
        "HIP",
        "roctx",
    ),
    Vendor(
        "Intel",
        r"\b(?:xpu|sycl|oneapi|level zero|unitrace)\b",
        r"^(?:ur|ze)[A-Z]",
        tool=Tool.UNITRACE,
        api="Level Zero",
        ranges="ITT",
        torch_terms=_torch_terms("XPU", "xpu"),
    ),
    Vendor(
        "Huawei",
        r"\b(?:npu|cann|ascend)\b",
        r"^acl(?:rt|nn|op|prof)",
        tool=Tool.ASCEND,
        api="CANN",
        ranges="mstx",
        torch_terms=(*_torch_terms("NPU", "npu"), ("torch.profiler", "torch_npu.profiler")),
    ),
    Vendor("Moore Threads", r"\bmusa\b", r"^musa[A-Z]", api="MUSA", torch_terms=_torch_terms("MUSA", "musa")),
    Vendor("Cambricon", r"\bmlu\b", r"^cn(?:rt)?[A-Z]", api="CNRT", torch_terms=_torch_terms("MLU", "mlu")),
    Vendor("Intel Gaudi", r"\b(?:hpu|gaudi|habana)\b", torch_terms=_torch_terms("HPU")),
    Vendor("Meta", r"\bmtia\b", torch_terms=_torch_terms("MTIA")),
    Vendor("Apple", r"\(mps\)", torch_terms=_torch_terms("")),
)
"""The other manufacturers. PyTorch for AMD's GPUs has the names of CUDA."""
NO_VENDOR: Final = Vendor("")
"""No session names another manufacturer than NVIDIA."""
_TORCH_DEVICE: Final = re.compile(r"^PyTorch\b.*\((\w+)\)$")
"""A framework with PyTorch's name of its devices, which are not CUDA's."""


def is_amd_name(name: str | None) -> bool:
    """Return whether a device of this name, or of this compute capability, is one of AMD's.

    >>> [is_amd_name(name) for name in ("AMD Instinct MI300X", "gfx942", "Tesla K40c", "", None)]
    [True, True, False, False, False]
    """
    return bool(name) and _AMD_NAME.search(str(name)) is not None


@once_per_profile("sessions", "api_calls", "summary")
def vendors_by_session(profile: Profile) -> dict[int, Vendor]:
    """Return the manufacturers of the GPUs of sessions, if it is not NVIDIA, whatever the devices are called.

    They are recognized by the tool (rocprof), the software (ROCm, HIP), PyTorch's name of the devices, or API calls. A
    PyTorch trace may have no name of an AMD GPU, and its architecture in the fields of a compute capability. PyTorch
    for ROCm keeps some names of CUDA calls; PyTorch for CUDA has no names of HIP calls.
    """
    calls, kernels = _names(profile)
    named = {
        (vendor.name, session)
        for vendor in VENDORS
        for names, pattern in ((calls, vendor.calls), (kernels, vendor.kernels))
        if pattern
        for session in names.filter(pl.col("name").str.contains(pattern))["session"].unique()
    }
    vendors = {}
    sessions = profile["sessions"].select("session", "format", "tool", "framework", "tool_version", "driver_version")
    for session, format_name, *texts in sessions.iter_rows():
        tool = recording_tool(format_name, texts[0])
        facts = "\n".join(text for text in texts if text)
        for vendor in VENDORS:
            is_named = (vendor.name, session) in named or re.search(vendor.facts, facts, re.IGNORECASE)
            if tool is vendor.tool or is_named:
                vendors[session] = vendor
                break
        else:
            if device := _TORCH_DEVICE.search(texts[1] or ""):
                vendors[session] = Vendor(device[1], torch_terms=_torch_terms("PrivateUse1"))
    return vendors


@once_per_profile("sessions", "devices", "api_calls", "summary")
def session_vendor(profile: Profile) -> Vendor:
    """Return the manufacturer of the GPUs; `NO_VENDOR` if none but NVIDIA is named."""
    if any(map(is_amd_name, profile["devices"]["name"].unique().to_list())):
        return VENDORS[0]
    vendors = vendors_by_session(profile)
    return vendors[min(vendors)] if vendors else NO_VENDOR


def _names(profile: Profile) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the names of API calls, and those of kernels in summaries, with their session."""
    calls = distinct_rows(profile["api_calls"], ("session", "name")).cast({"name": pl.String})
    listed = profile["summary"].select("session", pl.col("section", "name").cast(pl.String))
    summed, kernels = (listed.filter(pl.col("section") == section).drop("section") for section in ("api", "gpu"))
    return pl.concat([calls, summed], how="vertical_relaxed"), kernels


T = TypeVar("T")

CLIPPED_LENGTH: Final = 15
"""The number of characters to which nvprof cuts the device column of its text traces."""

_VENDOR: Final = re.compile(r"\b(?:nvidia|geforce|tesla|amd|instinct|intel|data center gpu)\b|\((?:r|tm)\)")
_ORDINAL: Final = re.compile(r"\s*\([0-9]*\)?$")
_SAME_CHIP: Final = re.compile(
    r"^(?:[0-9]+gb|pcie|sxm[0-9]?|hbm[0-9]?e?|generation|workstation|server|edition|vf|oam|ac)$"
)
"""Suffixes of a known name that do not denote another chip."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The facts about a GPU model: a row of ``gpus.toml``; None if cards of that name differ."""

    name: str
    """The name, as ``GTX 680``: without NVIDIA, GeForce and Tesla."""
    compute_capability: str | None
    """The compute capability, as ``7.0``."""
    sm_count: int | None = None
    """Streaming multiprocessors."""
    bandwidth: int | None = None
    """Memory bandwidth in 10^9 bytes per second."""
    confidence: str | None = None
    """a: seen in a profile or a public source, b: data sheets, c: doubtful."""
    note: str = ""
    """A remark on the row."""


@cache
def known_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs of ``gpus.toml``."""
    return tuple(Gpu(**row) for row in _shipped_tables()["gpus"])


@cache
def _shipped_tables() -> dict[str, Any]:
    return tomllib.loads(read_shipped(FILE))


def find_gpu(name: str) -> Gpu | None:
    """Return the facts about a GPU by its name, or None.

    A name of `CLIPPED_LENGTH` characters may be truncated: then only facts common to all GPUs whose names start with it
    are returned.

    >>> gpu = find_gpu("Tesla K40c (0)")
    >>> gpu.compute_capability, gpu.sm_count
    ('3.5', 15)
    >>> gpu = find_gpu("GeForce GTX 107")
    >>> gpu.compute_capability, gpu.sm_count
    ('6.1', None)
    >>> find_gpu("GeForce RTX 3070 Laptop GPU") is None
    True
    """
    normalized = normalized_name(name)
    exact = longest_name(name, {normalized_name(gpu.name): gpu for gpu in known_gpus()})
    if len(name) != CLIPPED_LENGTH or name.endswith(")"):
        # The device number after the name is complete: nothing is cut off.
        return exact
    candidates = [gpu for gpu in known_gpus() if normalized and normalized_name(gpu.name).startswith(normalized)]
    if exact is not None and exact not in candidates:
        candidates.append(exact)
    return _agreed(_ORDINAL.sub("", name), candidates)


def normalized_name(name: str) -> str:
    """Return the name of a GPU for comparisons: lower case, without the vendor, product line and the device's number.

    >>> normalized_name("NVIDIA GeForce RTX-4090 (0)"), normalized_name("Intel(R) Data Center GPU Max 1550")
    ('rtx 4090', 'max 1550')
    """
    return " ".join(_VENDOR.sub(" ", _ORDINAL.sub("", name).lower().replace("-", " ")).split())


def longest_name(name: str, values_by_name: Mapping[str, T]) -> T | None:
    """Return the value of the longest known name that a name starts with, if only memory or form factor follows.

    Args:
        name: Of a GPU.
        values_by_name: By `normalized_name`.
    """
    words = normalized_name(name).split()
    for length in range(len(words), 0, -1):
        value = values_by_name.get(" ".join(words[:length]))
        if value is not None:
            return value if all(_SAME_CHIP.match(word) for word in words[length:]) else None
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
        "the name is truncated",
    )


_FIRST_UNSUPPORTED_CAPABILITY: Final = 8.0
"""From this compute capability on, nvprof does not support GPUs."""


def tools_to_record(profile: Profile) -> tuple[Tool, ...]:
    """Return the tools that recorded a profile; Nsight Systems replaces nvprof for GPUs that it does not support."""
    tools = recording_tools(profile)
    if Tool.NVPROF not in tools or not is_newer_than_nvprof_supports(profile):
        return tools
    return tuple(dict.fromkeys(Tool.NSYS if tool is Tool.NVPROF else tool for tool in tools))


@once_per_profile("devices")
def is_newer_than_nvprof_supports(profile: Profile) -> bool:
    """Return whether a GPU is known to be newer than nvprof supports."""
    devices = profile["devices"].select("name", "compute_capability")
    named = [profile.gpu] if profile.gpu else devices.filter(pl.col("compute_capability").is_null())["name"].to_list()
    capabilities = [gpu.compute_capability for name in named if name and (gpu := find_gpu(name))]
    all_capabilities = pl.concat([devices["compute_capability"], pl.Series(capabilities, dtype=pl.String)])
    return bool((all_capabilities.cast(pl.Float64, strict=False) >= _FIRST_UNSUPPORTED_CAPABILITY).any())


@once_per_profile("sessions", "devices", "activities", "summary", "api_calls")
def device_facts(profile: Profile) -> pl.DataFrame:
    """Return facts about each GPU that a session names or uses.

    Columns: session, device, name, compute_capability, sm_count, memory_bandwidth (bytes per second), memory_bytes,
    max_threads_per_sm, registers_per_sm, shared_memory_per_sm_bytes, facts_source (where the compute capability is
    from: file, option, table, or unknown), confidence (of the table), vendor (null for NVIDIA or if unknown). Recorded
    values are kept; the others are those of the GPU that the user names, else of the device's own name. GPUs of
    other makers have no compute capability: the numbers that a trace has in its place are their architecture.

    Args:
        profile: The profile.

    Raises:
        ProftuiError: The GPU is unknown.
    """
    chosen = named_gpu(profile.gpu) if profile.gpu else None
    # Launches whose device is unreadable (null) ran on the GPU that the user names, or on an unknown one.
    devices = pl.concat(
        [distinct_rows(profile[frame], ("session", "device")) for frame in ("devices", "activities")]
    ).unique()
    if chosen is not None:
        # The same holds for totals, which name no device.
        totals = profile["summary"].filter(pl.col("section") == "gpu").select("session").unique()
        devices = pl.concat([devices, totals.join(devices, on="session", how="anti")], how="diagonal")
    rows = devices.join(profile["devices"], on=["session", "device"], how="left", nulls_equal=True)
    others = {session: vendor.name for session, vendor in vendors_by_session(profile).items()}
    vendors = [
        AMD if is_amd_name(name) or is_amd_name(capability) else others.get(session)
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
                gpu.compute_capability if gpu else None,
                gpu.sm_count if gpu else None,
                gpu.bandwidth * 1e9 if gpu and gpu.bandwidth else _peak_bandwidth(name, vendor),
                source,
                gpu.confidence if gpu else None,
            )
            for (gpu, source), name, vendor in zip(facts, rows["name"].to_list(), vendors, strict=True)
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


def _peak_bandwidth(name: str | None, vendor: str | None) -> float | None:
    """Return the memory bandwidth of a GPU that only the table of peaks has."""
    peaks = find_peaks(name) if name and vendor else None
    return peaks.bytes_per_s if peaks else None


def _facts(name: str | None, chosen: Gpu | None) -> tuple[Gpu | None, str]:
    if chosen is not None:
        return chosen, "option"
    gpu = find_gpu(name) if name else None
    return gpu, "table" if gpu else "unknown"


def named_gpu(name: str) -> Gpu:
    """Return the facts about the GPU that the user names.

    Raises:
        ProftuiError: No GPU of ``gpus.toml`` has this name.
    """
    from difflib import get_close_matches

    if (found_gpu := find_gpu(name)) is not None:
        return found_gpu
    names = {normalized_name(gpu.name): gpu.name for gpu in known_gpus()}
    similar = get_close_matches(normalized_name(name), names, n=3, cutoff=0.4)
    hint = "similar names: " + ", ".join(names[key] for key in similar) if similar else "for example --gpu 'Tesla K40c'"
    raise ProftuiError(f"--gpu {name}: unknown GPU", hint)


# --- peaks -----------------------------------------------------------------------------------------------------------

FILE: Final = "gpus.toml"

TYPES: Final = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""The element types of a peak."""

_PEAK_NAMES_BY_TYPE: Final = {
    "float64": ("fp64_tensor", "fp64"),
    "float16": ("fp16",),
    "bfloat16": ("bf16",),
    "int8": ("int8",),
    "uint8": ("int8",),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), ("fp8",)),
}


@dataclass(frozen=True, slots=True)
class Peaks:
    """The peaks of one GPU."""

    name: str
    source: str
    """The source of the figures."""
    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    """Peak FLOPs per second by one of `TYPES`."""
    bytes_per_s: float | None = None
    """Memory bandwidth."""
    link_bytes_per_s: float | None = None
    """One direction of all its NVLinks together."""
    is_users: bool = False
    """The user gives them: measured ceilings, which go before what a file records."""

    def for_type(self, element_type: str, uses_tensor_core: bool | None) -> tuple[str, float] | None:
        """Return the name in `TYPES` and the peak for work on elements of a type; None if unknown.

        Args:
            element_type: As in PyTorch, as ``bfloat16``.
            uses_tensor_core: Whether the kernels of the work use tensor cores. Products of float32 are TF32 on tensor
                cores and FP32 elsewhere, so their peak is unknown without this.
        """
        if element_type == "float32":
            if uses_tensor_core is None:
                # Without tensor cores for float32 the peak is unambiguous.
                names: tuple[str, ...] = () if "tf32" in self.flops_per_s else ("fp32",)
            else:
                names = ("tf32",) if uses_tensor_core and "tf32" in self.flops_per_s else ("fp32",)
        else:
            names = _PEAK_NAMES_BY_TYPE.get(element_type, ())
        return next(((name, self.flops_per_s[name]) for name in names if name in self.flops_per_s), None)


def find_peaks(name: str) -> Peaks | None:
    """Return the peaks of a GPU by its name, the user's figures first; None if unknown.

    >>> h200 = find_peaks("NVIDIA H200")
    >>> h200.flops_per_s["bf16"], h200.for_type("float32", True)
    (989400000000000.0, ('tf32', 494700000000000.0))
    >>> find_peaks("NVIDIA H100") is None
    True
    """
    return longest_name(name, _peaks_by_name(stamp(user_file_path(FILE))))


@cache
def _peaks_by_name(user_file: Stamp | None) -> dict[str, Peaks]:
    """Return the peaks by normalized name."""
    rows = [(row, f"{FILE}: {row.get('name')}") for row in _shipped_tables()["peaks"]]
    peaks = [_peaks(row, location) for row, location in rows]
    if user_file is not None:
        user_rows = tables(parse_user_file(user_text(user_file), user_file[0]), "peaks", user_file[0])
        peaks += [replace(_peaks(row, location), is_users=True) for row, location in user_rows]
    return {normalized_name(entry.name): entry for entry in peaks}


def _peaks(row: dict[str, Any], location: str) -> Peaks:
    unknown_keys = [key for key in row if key not in (*TYPES, "name", "source", "bandwidth", "nvlink")]
    if unknown_keys or not isinstance(row.get("name"), str):
        known_keys = ", ".join(("name", "bandwidth", "nvlink", *TYPES, "source"))
        raise ProftuiError(
            f"{location}: {f'unknown key {unknown_keys[0]}' if unknown_keys else 'no name'}; known keys: {known_keys}",
            HINT,
        )
    numbers = {key: value for key, value in row.items() if key not in ("name", "source")}
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ProftuiError(f"{location}: {key} is not a number above 0", HINT)
    bandwidth, nvlink = numbers.pop("bandwidth", None), numbers.pop("nvlink", None)
    return Peaks(
        row["name"],
        str(row.get("source", "your gpus.toml")),
        {key: value * 1e12 for key, value in numbers.items()},
        bandwidth * 1e9 if bandwidth is not None else None,
        # Data sheets give the sum of both directions.
        nvlink * 1e9 / 2 if nvlink is not None else None,
    )


def peaks_by_device(profile: Profile) -> dict[tuple[int, int | None], Peaks]:
    """Return the peaks of each GPU of a profile, by session and device; GPUs whose peaks are not known are omitted.

    In order of precedence: the user's values (``--peak``, then gpus.toml), the recorded memory bandwidth, the table.
    """
    user_peaks = dict(profile.peaks)
    peaks_by_gpu: dict[tuple[int, int | None], Peaks] = {}
    for session, device, name, bandwidth in (
        device_facts(profile)
        .select(
            "session", "device", pl.coalesce(pl.lit(profile.gpu, pl.String), "name").alias("name"), "memory_bandwidth"
        )
        .iter_rows()
    ):
        peaks = find_peaks(name) if name else None
        if peaks is None and user_peaks:
            peaks = Peaks(name or "GPU", "--peak")
        if peaks is None:
            continue
        recorded = None if peaks.is_users else bandwidth
        peaks_by_gpu[session, device] = replace(
            peaks,
            source=f"--peak; else {peaks.source}" if user_peaks and peaks.source != "--peak" else peaks.source,
            flops_per_s={
                **peaks.flops_per_s,
                **{name: 1e12 * rate for name, rate in user_peaks.items() if name in TYPES},
            },
            bytes_per_s=1e9 * user_peaks["bandwidth"] if "bandwidth" in user_peaks else recorded or peaks.bytes_per_s,
        )
    return peaks_by_gpu


def peak_option(text: str) -> tuple[str, float]:
    """Parse ``--peak``: one of `TYPES` in 10^12 operations per second, or the bandwidth in 10^9 bytes per second.

    >>> peak_option("bf16=750"), peak_option("bandwidth=3900")
    (('bf16', 750.0), ('bandwidth', 3900.0))

    Raises:
        ProftuiError: It is neither.
    """
    name, _, number = text.partition("=")
    name = name.strip().lower()
    if name not in (*TYPES, "bandwidth"):
        raise ProftuiError(f"--peak {text}: unknown peak", f"choose {', '.join(TYPES)} or bandwidth")
    try:
        rate = float(number)
    except ValueError:
        rate = 0
    if not 0 < rate < 1e9:
        raise ProftuiError(
            f"--peak {text}: not a number above 0", "for example --peak bf16=750 (TFLOP/s), bandwidth=3900 (GB/s)"
        )
    return name, rate
