"""Every frame that can be exported, by its name: the frames of the model and what is aggregated from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

    from tui.model.profile import Profile

MODEL_FRAMES: Final = (
    "sessions",
    "devices",
    "activities",
    "api_calls",
    "ops",
    "ranges",
    "summary",
    "metrics",
    "layers",
    "issues",
)
"""The frames of `tui.model.schema`, which is not imported here: the command line names them before polars is needed."""

AGGREGATES: Final = ("kernels", "api", "op_types", "op_kernels")
"""What is computed: GPU work and API calls by name, GPU time by op, kernels with the op that each belongs to."""

NAMES: Final = (*MODEL_FRAMES, *AGGREGATES)


def frame(profile: Profile, name: str) -> pl.DataFrame:
    """A frame to export.

    Args:
        profile: What was read.
        name: One of `NAMES`.
    """
    if name in MODEL_FRAMES:
        return profile[name]
    from tui.analysis import api, kernels, ops

    if name == "kernels":
        return kernels.kernels(profile).select(kernels.KERNEL_EXPORT)
    if name == "api":
        return api.api(profile).select(kernels.KERNEL_EXPORT)
    return ops.ops(profile) if name == "op_types" else ops.classified_kernels(profile)
