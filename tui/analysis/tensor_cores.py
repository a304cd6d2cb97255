"""Whether kernels use tensor cores, told from their names; the reason stands beside every verdict."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import polars as pl
from platformdirs import user_config_dir

from tui.analysis.op_rules import NAME_LIMIT, classify
from tui.model.errors import ProftuiError
from tui.model.schema import NAME

VERDICTS: Final = {"yes": True, "no": False, "unknown": None}

_FIX: Final = "correct the file or move it away"


@dataclass(frozen=True, slots=True)
class TensorCoreRules:
    """The rules of ``tensor_cores.toml``, in the order that they are tried."""

    rules: tuple[tuple[bool | None, str, str], ...]
    """Verdict, pattern, reason."""
    without: frozenset[str]
    """Op types whose kernels use no tensor cores, where no rule says otherwise."""


def user_rules_path() -> Path:
    """Where a user's own rules are looked for."""
    return Path(user_config_dir("proftui", appauthor=False)) / "tensor_cores.toml"


def tensor_core_rules() -> TensorCoreRules:
    """The user's rules, where there are any, then those that come with the program.

    Raises:
        ProftuiError: The user's file cannot be read, or has a rule that cannot be used.
    """
    path = user_rules_path()
    return _rules((str(path), path.stat().st_mtime_ns) if path.is_file() else None)


@cache
def _rules(user: tuple[str, int] | None) -> TensorCoreRules:
    shipped = parse_rules(files("tui.data").joinpath("tensor_cores.toml").read_text("utf-8"), "tensor_cores.toml")
    if user is None:
        return shipped
    try:
        text = Path(user[0]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProftuiError(f"{user[0]}: cannot be read: {error}", _FIX) from error
    own = parse_rules(text, user[0])
    return TensorCoreRules((*own.rules, *shipped.rules), own.without | shipped.without)


def parse_rules(text: str, source: str) -> TensorCoreRules:
    """Read rules from TOML.

    Args:
        text: The TOML document: an array of tables ``rule`` and a list ``without``; each can be left out.
        source: What to call it in errors.

    Raises:
        ProftuiError: It is not TOML, or a rule has a wrong verdict or a pattern that is no regular expression.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProftuiError(f"{source}: not TOML: {error}", _FIX) from error
    entries, without = document.get("rule", []), document.get("without", [])
    if not isinstance(entries, list) or not isinstance(without, list) or not all(isinstance(t, str) for t in without):
        raise ProftuiError(f"{source}: expected [[rule]] tables and a list of op types called without", _FIX)
    return TensorCoreRules(
        tuple(_rule(entry, f"{source}: rule {number}") for number, entry in enumerate(entries, 1)), frozenset(without)
    )


def _rule(entry: object, where: str) -> tuple[bool | None, str, str]:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(k), str) for k in ("verdict", "pattern", "reason")):
        raise ProftuiError(f"{where}: expected verdict, pattern and reason", _FIX)
    if entry["verdict"] not in VERDICTS:
        raise ProftuiError(f"{where}: verdict must be yes, no or unknown, not {entry['verdict']}", _FIX)
    try:
        pl.Series([""]).str.contains(f"(?i){entry['pattern']}")
    except pl.exceptions.PolarsError as error:
        problem = str(error).strip().splitlines()[-1]
        raise ProftuiError(f"{where}: pattern is not a regular expression: {problem}", _FIX) from error
    return VERDICTS[entry["verdict"]], entry["pattern"], entry["reason"]


def tensor_cores_by_name(names: pl.Series, rules: TensorCoreRules | None = None) -> pl.DataFrame:
    """What names of kernels say of tensor cores: name, uses_tensor_core (null: it does not say), tensor_core_reason.

    One row per distinct name, in no particular order. The device, which may have no tensor cores, is not looked at.

    >>> tensor_cores_by_name(pl.Series(["volta_sgemm_128x32_nn"])).row(0)[1]
    False
    """
    chosen = rules or tensor_core_rules()
    classes = classify(names)
    distinct = classes["name"]
    text = distinct.cast(pl.String).str.slice(0, NAME_LIMIT)
    table = pl.DataFrame({"name": distinct, "op_type": classes["op_type"].cast(pl.String), "text": text})
    found = pl.coalesce(
        pl.lit(None, pl.Int32),
        *(
            pl.when(pl.col("text").str.contains(f"(?i){pattern}")).then(pl.lit(number, pl.Int32))
            for number, (_, pattern, _) in enumerate(chosen.rules)
        ),
    )
    verdicts = pl.DataFrame(
        [(number, verdict, reason) for number, (verdict, _, reason) in enumerate(chosen.rules)],
        schema={"number": pl.Int32, "verdict": pl.Boolean, "reason": pl.String},
        orient="row",
    )
    plain = pl.col("op_type").is_in(sorted(chosen.without)) & pl.col("number").is_null()
    return (
        table.with_columns(found.alias("number"))
        .join(verdicts, on="number", how="left", maintain_order="left")
        .select(
            "name",
            pl.when(plain).then(pl.lit(False)).otherwise("verdict").alias("uses_tensor_core"),
            pl.when(plain)
            .then(pl.format("{} work needs no tensor cores", "op_type"))
            .otherwise(pl.col("reason").fill_null("its name does not say"))
            .cast(NAME)
            .alias("tensor_core_reason"),
        )
    )
