"""Snapshots of PyTorch's caching allocator: ``torch.cuda.memory._dump_snapshot``."""

from __future__ import annotations

from tui.loaders.memory_snapshot.snapshot_loader import MEMORY_SNAPSHOT as MEMORY_SNAPSHOT
