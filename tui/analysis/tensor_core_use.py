"""Tensor-core use of kernels: as recorded, as the GPU allows, or by name, with the reason; its rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.devices import AMD, device_facts
from tui.analysis.durations import activities_by_name, complete_sum, total
from tui.analysis.grouping import group_rows, is_constant, unique_values
from tui.analysis.memo import once_per_profile
from tui.analysis.ops.op_type_rules import NAME_LIMIT, classify, first_matches
from tui.data.user_files import HINT, checked_pattern, parse_user_file, rules_with_users, tables, user_file_path
from tui.model.errors import ProftuiError
from tui.model.names import kind_by_name
from tui.model.profile import column_view
from tui.model.schema import NAME

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile


VERDICTS: Final = {"yes": True, "no": False, "unknown": None}

SHIPPED: Final = "tensor_cores.toml"
_LISTS: Final = ("without", "devices_without", "eligible_types")


@dataclass(frozen=True, slots=True)
class Eligible:
    """Whether ops or kernels of certain names could use tensor cores."""

    subject: str
    """op or kernel."""
    verdict: bool
    pattern: str
    """A regular expression in Rust syntax; upper and lower case are the same."""


@dataclass(frozen=True, slots=True)
class TensorCoreRules:
    """The rules of ``tensor_cores.toml``, in the order that they are tried."""

    rules: tuple[tuple[bool | None, str, str], ...]
    """Verdict, pattern, reason."""
    types_without: frozenset[str]
    """Op types whose kernels use no tensor cores, unless a rule overrides it."""
    devices_without: tuple[str, ...] = ()
    """Patterns of the names of GPUs that lack tensor cores, though their compute capability has them."""
    eligible: tuple[Eligible, ...] = ()
    """Ops and kernels that could, or could not, use tensor cores."""
    eligible_types: frozenset[str] = frozenset()
    """Op types of kernels that could."""

    def eligible_for(self, subject: str) -> tuple[Eligible, ...]:
        """Return the entries of ops, or of kernels."""
        return tuple(entry for entry in self.eligible if entry.subject == subject)


def tensor_core_rules_path() -> Path:
    """Return the path of the user's own rules."""
    return user_file_path(SHIPPED)


def tensor_core_rules() -> TensorCoreRules:
    """Return the user's rules, if any, followed by the program's.

    Raises:
        ProftuiError: The user's file cannot be read, or has a rule that cannot be used.
    """
    return rules_with_users(SHIPPED, tensor_core_rules_path(), parse_tensor_core_rules, _merge_rules)


def _merge_rules(user_rules: TensorCoreRules, shipped: TensorCoreRules) -> TensorCoreRules:
    return TensorCoreRules(
        (*user_rules.rules, *shipped.rules),
        user_rules.types_without | shipped.types_without,
        (*user_rules.devices_without, *shipped.devices_without),
        (*user_rules.eligible, *shipped.eligible),
        user_rules.eligible_types | shipped.eligible_types,
    )


def parse_tensor_core_rules(text: str, source: str) -> TensorCoreRules:
    """Read rules from TOML.

    Args:
        text: The TOML document: arrays of tables ``rule`` and ``eligible``, lists ``without`` (op types),
            ``devices_without`` and ``eligible_types``; each can be omitted.
        source: The name of the document in errors.

    Raises:
        ProftuiError: It is not TOML, or a rule has a wrong verdict or a pattern that is no regular expression.
    """
    document = parse_user_file(text, source)
    for key in _LISTS:
        values = document.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ProftuiError(f"{source}: expected a list of strings called {key}", HINT)
    for number, pattern in enumerate(document.get("devices_without", []), 1):
        checked_pattern(pattern, f"{source}: devices_without {number}", tried=SHIPPED)
    return TensorCoreRules(
        tuple(_rule(entry, location) for entry, location in tables(document, "rule", source)),
        frozenset(document.get("without", [])),
        tuple(document.get("devices_without", [])),
        tuple(_eligible(entry, location) for entry, location in tables(document, "eligible", source)),
        frozenset(document.get("eligible_types", [])),
    )


def _rule(entry: Mapping[str, object], location: str) -> tuple[bool | None, str, str]:
    verdict, pattern, reason = _texts(entry, ("verdict", "pattern", "reason"), location)
    if verdict not in VERDICTS:
        raise ProftuiError(f"{location}: verdict must be yes, no or unknown, not {verdict}", HINT)
    checked_pattern(pattern, location, tried=SHIPPED)
    return VERDICTS[verdict], pattern, reason


def _eligible(entry: Mapping[str, object], location: str) -> Eligible:
    subject, verdict, pattern = _texts(entry, ("of", "verdict", "pattern"), location)
    if subject not in ("op", "kernel") or verdict not in ("yes", "no"):
        raise ProftuiError(f"{location}: of must be op or kernel, and verdict yes or no", HINT)
    checked_pattern(pattern, location, tried=SHIPPED)
    return Eligible(subject, verdict == "yes", pattern)


def _texts(entry: Mapping[str, object], keys: tuple[str, str, str], location: str) -> tuple[str, str, str]:
    first, second, third = (entry.get(key) for key in keys)
    if not isinstance(first, str) or not isinstance(second, str) or not isinstance(third, str):
        raise ProftuiError(f"{location}: expected {keys[0]}, {keys[1]} and {keys[2]}", HINT)
    return first, second, third


FIRST_CAPABILITY: Final = (7, 0)
"""The first compute capability with tensor cores."""

ASSUMED: Final = "assumed because the GPU is unknown: {}"
"""The verdict by name alone, if the GPU may have no tensor cores."""

AS_RECORDED: Final = "as recorded"

_MEMORY: Final = ("memcpy", "memset", "um")
_NOT_SINGLE: Final = "CUDA graph recorded as a whole"


def tensor_cores_by_name(names: pl.Series) -> pl.DataFrame:
    """Return tensor-core use inferred from kernel names: name, uses_tensor_core (null: unknown), reason.

    One row per distinct name, in no particular order. The device, which may have no tensor cores, is not considered.

    >>> tensor_cores_by_name(pl.Series(["volta_sgemm_128x32_nn"])).row(0)[1]
    False
    """
    rules = tensor_core_rules()
    classes = classify(names)
    distinct = classes["name"]
    texts = distinct.cast(pl.String).str.slice(0, NAME_LIMIT).to_list()
    matches = pl.Series("number", first_matches(tuple(pattern for _, pattern, _ in rules.rules), texts), pl.Int32)
    table = pl.DataFrame([distinct.alias("name"), classes["op_type"].cast(pl.String), matches])
    verdicts = pl.DataFrame(
        [(number, verdict, reason) for number, (verdict, _, reason) in enumerate(rules.rules)],
        schema={"number": pl.Int32, "verdict": pl.Boolean, "reason": pl.String},
        orient="row",
    )
    plain = pl.col("op_type").is_in(sorted(rules.types_without)) & pl.col("number").is_null()
    return table.join(verdicts, on="number", how="left", maintain_order="left").select(
        "name",
        pl.when(plain).then(pl.lit(False)).otherwise("verdict").alias("uses_tensor_core"),
        pl.when(plain)
        .then(pl.format("not applicable to {} work", "op_type"))
        .otherwise(pl.col("reason").fill_null("not evident from its name"))
        .cast(NAME)
        .alias("tensor_core_reason"),
    )


def tensor_cores_by_device(profile: Profile) -> pl.DataFrame:
    """Return whether the GPUs of a profile have tensor cores: session, device, has_tensor_cores, device_reason.

    ``has_tensor_cores`` is null if nothing is known of the GPU. AMD's GPUs count as having them: kernel names imply
    whether they use matrix cores. ``device_reason`` is why there are none, else it is null.
    """
    facts = device_facts(profile)
    devices_without = tensor_core_rules().devices_without
    capability = pl.col("compute_capability").str.extract_groups(r"^(?<major>[0-9]{1,4})\.(?<minor>[0-9]{1,4})").struct
    too_old = capability.field("major").cast(pl.Int32, strict=False) < FIRST_CAPABILITY[0]
    by_name = pl.any_horizontal(
        pl.lit(False), *(pl.col("name").fill_null("").str.contains(f"(?i){pattern}") for pattern in devices_without)
    )
    # Some chips without them have the capability of chips with them: verdicts by name are ignored.
    by_name &= pl.col("compute_capability").fill_null("7.5") == "7.5"
    return facts.select(
        "session",
        "device",
        pl.when(pl.col("vendor") == AMD)
        .then(pl.lit(True))
        .when(too_old | by_name)
        .then(pl.lit(False))
        .when(pl.col("compute_capability").is_not_null())
        .then(pl.lit(True))
        .alias("has_tensor_cores"),
        pl.when(pl.col("vendor") == AMD)
        .then(None)
        .when(too_old)
        .then(pl.format("compute capability {} has none", "compute_capability"))
        .when(by_name)
        .then(pl.format("{} has none", pl.col("name").str.replace(r"\s*\([0-9]*\)?$", "")))
        .alias("device_reason"),
    )


def with_verdicts(profile: Profile, activities: pl.DataFrame) -> pl.DataFrame:
    """Return the same activities with ``uses_tensor_core`` and ``tensor_core_reason`` completed.

    Recorded verdicts (measured, or of the tool) are kept. Else a GPU without tensor cores decides, then the name; for
    an unknown GPU the verdict of the name is assumed. Memory operations use none.

    Args:
        profile: The profile of the activities.
        activities: With the columns session, device, kind, name, uses_tensor_core and tensor_core_reason.
    """
    joined = (
        activities.join(tensor_cores_by_device(profile), on=["session", "device"], how="left", nulls_equal=True,
                        maintain_order="left")
        .join(_inferred_from_names(activities["name"]), on="name", how="left", maintain_order="left", nulls_equal=True)
    )  # fmt: skip
    recorded = pl.col("uses_tensor_core").is_not_null()
    memory = pl.col("kind").cast(pl.String).is_in(_MEMORY)
    graph = pl.col("kind").cast(pl.String) == "graph"
    has_none = pl.col("has_tensor_cores").eq_missing(pl.lit(False))
    assumed = pl.col("has_tensor_cores").is_null() & pl.col("name_says").is_not_null()
    return joined.with_columns(
        pl.when(recorded)
        .then("uses_tensor_core")
        .when(memory | (has_none & ~graph))
        .then(pl.lit(False))
        .when(~graph)
        .then("name_says")
        .alias("uses_tensor_core"),
        pl.when(recorded)
        .then(pl.col("tensor_core_reason").cast(pl.String).fill_null(AS_RECORDED))
        .when(memory)
        .then(pl.lit("not applicable to memory operations"))
        .when(graph)
        .then(pl.lit(_NOT_SINGLE))
        .when(has_none)
        .then("device_reason")
        .when(assumed)
        .then("assumed_reason")
        .otherwise("name_reason")
        .cast(NAME)
        .alias("tensor_core_reason"),
    ).drop("has_tensor_cores", "device_reason", "name_says", "name_reason", "assumed_reason")


def _inferred_from_names(names: pl.Series) -> pl.DataFrame:
    """Return `tensor_cores_by_name` with renamed columns, and the reason for assumed verdicts."""
    return tensor_cores_by_name(names.unique()).select(
        "name",
        pl.col("uses_tensor_core").alias("name_says"),
        pl.col("tensor_core_reason").cast(pl.String).alias("name_reason"),
        pl.format(ASSUMED, "tensor_core_reason").alias("assumed_reason"),
    )


@once_per_profile("sessions", "devices", "activities", "api_calls", "summary")
def kernel_verdicts(profile: Profile) -> pl.DataFrame:
    """Return whether kernels use tensor cores: one row per session, device, kind, name and recorded verdict.

    Columns: session, device, kind, name, uses_tensor_core (null: it is unknown), tensor_core_reason, launches, total_ns
    (null if no duration is known). A name has several rows if it ran on several devices, or its launches have different
    recorded verdicts. For sessions with aggregates only, the device is any of theirs; null if only some have tensor
    cores.
    """
    activities = profile["activities"]
    recorded = ("uses_tensor_core", "tensor_core_reason")
    keys = ["session", "device", "kind", "name", *recorded]
    others = ("device", *recorded)
    if all(is_constant(column_view(activities, name)) for name in others):
        # The result for all sessions contains it.
        values = zip(others, activities.select(others).row(0), strict=True)
        constants = (pl.lit(value, activities.schema[name]).alias(name) for name, value in values)
        single = (
            activities_by_name(profile)
            .with_columns(pl.col("calls").alias("launches"), *constants)
            .select(*keys, "launches", "total_ns")
        )
    else:
        sums = [pl.len().cast(pl.Int64).alias("launches"), total().alias("total_ns")]
        single = group_rows(activities, keys, sums)
    devices = (
        tensor_cores_by_device(profile)
        .group_by("session", maintain_order=True)
        .agg(pl.col("device").first(), pl.col("has_tensor_cores").n_unique().alias("kinds"))
        .filter(pl.col("kinds") == 1)
        .drop("kinds")
    )
    printed = (
        profile["summary"]
        .filter(
            pl.col("section") == "gpu",
            ~pl.col("session").is_in(unique_values(column_view(activities, "session")).implode()),
        )
        .group_by("session", "name")
        .agg(complete_sum("calls").alias("launches"), total("total_ns").alias("total_ns"))
        .join(devices, on="session", how="left")
        .with_columns(
            kind_by_name().cast(NAME),
            pl.lit(None, pl.Boolean).alias(recorded[0]),
            pl.lit(None, NAME).alias(recorded[1]),
        )
        .select(single.columns)
    )
    return with_verdicts(profile, pl.concat([single, printed]))


def verdicts_by_name(profile: Profile) -> pl.DataFrame:
    """Return `kernel_verdicts` over devices and launches: session, kind, name, uses_tensor_core, tensor_core_reason.

    A name uses tensor cores if any of its launches does, and does not if none does for certain. The reason is that of
    the deciding row with most time.
    """
    uses = pl.col("uses_tensor_core")
    deciding = uses.eq_missing(uses.any(ignore_nulls=False))
    return (
        kernel_verdicts(profile)
        .sort("total_ns", "device", "tensor_core_reason", descending=[True, False, False], nulls_last=True)
        .group_by("session", "kind", "name", maintain_order=True)
        .agg(
            uses.any(ignore_nulls=False),
            pl.col("tensor_core_reason").filter(deciding).first(),
        )
    )


def with_verdicts_by_name(profile: Profile, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of several launches each with ``uses_tensor_core`` completed by `verdicts_by_name`, with the reason.

    Args:
        profile: The profile of the kernels.
        rows: With the columns session, kind, name and uses_tensor_core (as recorded).
    """
    return (
        rows.rename({"uses_tensor_core": "recorded"})
        .join(verdicts_by_name(profile), on=["session", "kind", "name"], how="left", nulls_equal=True,
              maintain_order="left")
        .with_columns(pl.coalesce("recorded", "uses_tensor_core").alias("uses_tensor_core"))
        .drop("recorded")
    )  # fmt: skip
