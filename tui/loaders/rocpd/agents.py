"""GPUs of a rocpd recording; its agents are the CPUs, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.loaders.rocpd.tables import from_json

if TYPE_CHECKING:
    from tui.loaders.rocpd.tables import Recording

_AGENT: Final = {
    "id": pl.Int64,
    "type": pl.String,
    "type_index": pl.Int64,
    "name": pl.String,
    "product_name": pl.String,
    "extdata": pl.String,
}
_TOO_MUCH: Final = 1 << 50
"""A petabyte."""
_FACTS: Final = ("sm_count", "max_threads_per_sm", "shared_memory_per_sm_bytes", "memory_bytes")


def read_agents(recording: Recording) -> pl.DataFrame:
    """GPUs with columns of the model, and ``agent_id``; they are numbered as HIP numbers them."""
    rows = recording.frame("info_agent", _AGENT).filter(pl.col("type") == "GPU").unique("id", maintain_order=True)
    facts = pl.DataFrame(
        [dict.fromkeys(_FACTS) if one is None else one for one in from_json(rows["extdata"], _facts)],
        schema=dict.fromkeys(_FACTS, pl.Int64),
    )
    return rows.hstack(facts).select(
        pl.col("id").alias("agent_id"),
        pl.col("type_index").alias("device"),
        pl.coalesce(pl.col("product_name").replace("", None), pl.col("name")).alias("name"),
        pl.col("name").alias("compute_capability"),
        *_FACTS,
    )


def _facts(agent: Mapping[str, Any]) -> dict[str, int | None]:
    banks = agent.get("mem_banks")
    banks = banks if isinstance(banks, list) else []
    sizes = [_whole(bank.get("size_in_bytes")) for bank in banks if isinstance(bank, dict)]
    waves, width = _whole(agent.get("max_waves_per_cu")), _whole(agent.get("wave_front_size"))
    lds = _whole(agent.get("lds_size_in_kb"))
    return {
        "sm_count": _whole(agent.get("cu_count")),
        "max_threads_per_sm": _whole(waves * width) if waves and width else None,
        "shared_memory_per_sm_bytes": _whole(lds * 1024) if lds else None,
        "memory_bytes": _whole(sum(size for size in sizes if size)),
    }


def _whole(value: object) -> int | None:
    """A count; 0 stands for what is not known, and so does what no machine has."""
    return value if isinstance(value, int) and 0 < value < _TOO_MUCH else None
