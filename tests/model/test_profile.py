"""Profiles of several inputs joined as one."""

from __future__ import annotations

import polars as pl

from tui.model.profile import Profile, build_profile, merge_profiles


def profile_of_sessions(session_count: int = 1) -> Profile:
    """Return a profile with two ops, the second within the first, and the work that it launched."""
    ops = pl.DataFrame({"session": [0, 0], "op": [0, 1], "parent": [None, 0], "forward": [None, 0]})
    work = pl.DataFrame({"session": [0], "activity": [0], "op": [1]})
    sessions = pl.DataFrame({"session": list(range(session_count))})
    return build_profile({"sessions": sessions, "ops": ops, "activities": work}, source="a")


def test_ops_of_joined_profiles_are_renumbered_with_all_references() -> None:
    profile = merge_profiles([profile_of_sessions(2), profile_of_sessions()])
    assert profile["sessions"]["session"].to_list() == [0, 1, 2]
    assert profile["ops"].select("session", "op", "parent", "forward").rows() == [
        (0, 0, None, None),
        (0, 1, 0, 0),
        (2, 2, None, None),
        (2, 3, 2, 2),
    ]
    assert profile["activities"].select("session", "activity", "op").rows() == [(0, 0, 1), (2, 1, 3)]
