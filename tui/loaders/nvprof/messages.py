"""The warnings and errors of nvprof: what they mean, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Notice:
    """The issue for a message of nvprof."""

    severity: str
    """info, warning or error."""
    reason: str
    """The meaning for the figures, and what to do."""
    general: bool = False
    """Whether other tools print such messages too; it is nvprof's only within a session of nvprof."""


_SIGNALS: Final = MappingProxyType(
    {
        2: "an interrupt from the keyboard",
        6: "abort",
        9: "kill",
        11: "a segmentation fault",
        15: "terminate",
        134: "abort",
        137: "kill",
        139: "a segmentation fault",
    }
)

NO_KERNELS: Final = (
    "no kernels were profiled: nvprof saw no GPU work. Let the program end with cudaDeviceReset() or "
    "cudaProfilerStop(), add --profile-child-processes if it starts others, check for --profile-from-start off, "
    "the permission to profile, and the GPU that it runs on"
)
NO_API: Final = "no CUDA API calls were profiled: recorded with --profile-api-trace none, or the program made none"
NO_METRICS: Final = (
    "no events or metrics were profiled: check that kernels ran, that the GPU has these metrics (--query-metrics), "
    "and that the user has permission to read the GPU's counters"
)


def _signal(match: re.Match[str]) -> str:
    number = int(match[1])
    name = _SIGNALS.get(number)
    return (
        f"the program was killed by signal {number}{f' ({name})' if name else ''}: figures cover the time until then, "
        "and the last records may be missing"
    )


def _counted(one: str, many: str) -> Callable[[re.Match[str]], str]:
    """A text that begins with the number in the message."""
    return lambda match: f"{match[1]} {one if match[1] == '1' else many}"


_Words = str | Callable[[re.Match[str]], str]

_MESSAGES: Final[tuple[tuple[re.Pattern[str], str, _Words], ...]] = tuple(
    (re.compile(pattern), severity, words)
    for pattern, severity, words in (
        (
            r"(?:Warning: )?Some kernel\(s\) will be replayed on device ([0-9]+)",
            "info",
            r"kernels on device \1 were replayed to collect all metrics: times of this run are not comparable",
        ),
        (
            r"Generated result file: (.+)",
            "info",
            r"nvprof wrote its records to a file and printed no table: open that file",
        ),
        (
            r"Warning: ([0-9]+) records have invalid timestamps",
            "warning",
            _counted(
                "record has invalid timestamps, because the device buffer was too small: it is not in the "
                "figures. Record again with a larger --device-buffer-size",
                "records have invalid timestamps, because the device buffer was too small: they are missing from the "
                "figures. Record again with a larger --device-buffer-size",
            ),
        ),
        (
            r"Warning: ([0-9]+) API trace records have same start and end timestamps",
            "warning",
            _counted(
                "API call has the same start and end: it was shorter than a step of the clock and counts as 0 ns",
                "API calls have the same start and end: they were shorter than a step of the clock and count as 0 ns",
            ),
        ),
        (
            r"Warning: Found ([0-9]+) invalid records in the result",
            "warning",
            _counted(
                "record is invalid and missing from the figures: the device ran out of memory, or a kernel was "
                "stopped by an assertion",
                "records are invalid and missing from the figures: the device ran out of memory, or a kernel was "
                "stopped by an assertion",
            ),
        ),
        (
            r"Warning: Found ([0-9]+) invalid range marker",
            "warning",
            _counted(
                "NVTX range marker has no partner: a range that was begun and not ended, or the reverse, is missing",
                "NVTX range markers have no partner: ranges that were begun and not ended, or the reverse, are missing",
            ),
        ),
        (
            r"Warning: Some profiling data are not recorded",
            "warning",
            "some records were lost: call cudaProfilerStop() or cudaDeviceReset() before the program ends, so that "
            "nvprof can write out what it has",
        ),
        (
            r"Warning: Unified Memory Profiling is not supported on",
            "warning",
            "unified memory was not profiled: nvprof does not support this combination of GPUs. One GPU "
            "(CUDA_VISIBLE_DEVICES) can make it possible",
        ),
        (
            r"Warning: Profiling results might be incorrect with current version of nvcc",
            "warning",
            "the program was built with a version of nvcc that nvprof does not know: figures may be wrong. "
            "Build it with nvcc 9.0 or later",
        ),
        (
            r"Warning: The following aggregate event values were extrapolated",
            "warning",
            "some event values were extrapolated from a part of the GPU: they are estimates",
        ),
        (
            r"Warning: One or more events or metrics can't be profiled",
            "warning",
            "some events or metrics could not be profiled: record with --print-gpu-trace to see which kernel",
        ),
        (
            r"Execution timeout, stopping the application",
            "warning",
            "nvprof stopped the program at the time limit given with -t: figures cover the time until then",
        ),
        (
            r"Error: Internal profiling error ([\w:]+)",
            "error",
            r"nvprof failed with its internal error \1: figures are missing or incomplete. Record again, with fewer "
            r"metrics or another version of nvprof",
        ),
        (
            r"Warning: No CUDA application was profiled",
            "error",
            "no CUDA application was profiled: the command that nvprof ran made no CUDA call. If it starts the program "
            "in another process, add --profile-child-processes",
        ),
        (
            r"Warning: (?:nvprof is not supported on|This version of nvprof doesn't support the underlying) device",
            "error",
            "nvprof cannot profile this GPU: it supports compute capability 7.5 at most. Record with Nsight Systems "
            "(nsys profile) and, for metrics, Nsight Compute (ncu)",
        ),
        (
            r"Warning: (?:ERR_NVGPUCTRPERM|The user does not have permission to profile)",
            "error",
            "the user may not profile this GPU: kernels or metrics are missing. The administrator can allow it "
            "(developer.nvidia.com/ERR_NVGPUCTRPERM)",
        ),
        (r"Error: Application received signal ([0-9]+)", "error", _signal),
        (
            r"Error: Application returned non-zero code (\S+)",
            "warning",
            r"the program ended with exit status \1: it may have failed, and figures may be incomplete",
        ),
        (r"Error: CUDA profiling error", "error", "CUDA reported an error of its profiler: figures are missing"),
        (
            r"Error: unable to locate profiling library (\S*?)\.?$",
            "error",
            r"nvprof did not find its library \1 and profiled nothing: add the CUDA toolkit's lib64 to LD_LIBRARY_PATH",
        ),
        (
            r"(?:Error: )?Unable to profile application\. Unified Memory profiling failed",
            "error",
            "nvprof could not profile the program, because of unified memory: record with "
            "--unified-memory-profiling off",
        ),
    )
)
_GENERAL: Final = re.compile(r"(Error|Warning): (?!This can happen)\S")

MISSING_EVENT: Final = re.compile(r'Warning: (?:Event|Metric) "[^"]*" cannot be found on device')
"""Repeated for each event: reported once, with the count."""


def notice(message: str) -> Notice | None:
    """The issue for a line of nvprof without its prefix; None if it is no warning or error.

    >>> notice("Warning: 12 records have invalid timestamps due to insufficient device buffer space.").reason[:35]
    '12 records have invalid timestamps,'
    >>> notice("Error: Application received signal 11").severity, notice("API calls:")
    ('error', None)
    """
    for pattern, severity, words in _MESSAGES:
        match = pattern.match(message)
        if match is not None:
            return Notice(severity, words(match) if callable(words) else match.expand(words))
    general = _GENERAL.match(message)
    if general is not None:
        severity = general[1].lower()
        return Notice(severity, f"nvprof reported this {severity} while it recorded", general=True)
    return None


_UNPREFIXED: Final = MappingProxyType(
    {
        "No kernels were profiled.": Notice("warning", NO_KERNELS),
        "No API activities were profiled.": Notice("info", NO_API),
        "No events/metrics were profiled.": Notice("warning", NO_METRICS),
    }
)


def nothing_profiled(text: str) -> Notice | None:
    """The issue for a line in place of a table.

    >>> nothing_profiled("No kernels were profiled.").severity, nothing_profiled("No kernels here")
    ('warning', None)
    """
    return _UNPREFIXED.get(text.strip())
