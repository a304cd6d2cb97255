"""Tables that commands print in part: with filter, order, columns and limits, as text, Markdown or JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui.model.errors import ProftuiError
from tui.text import plain, plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    import polars as pl

    from tui.model.profile import Profile
    from tui.model.table_spec import TableSpec
    from tui.output.json_document import Bounds, JsonTable
    from tui.output.report import Style
    from tui.output.selection import Selected, Selection


def selection_from_options(options: argparse.Namespace) -> Selection:
    """Return the rows and columns that the options select."""
    from tui.output.selection import Selection

    return Selection(
        filter=options.filter,
        sort=options.sort,
        columns=tuple(name for name in options.columns.split(",") if name.strip()),
        limit=options.limit,
        hides_small=options.hide_small,
        depth=getattr(options, "depth", None),
        unfolded=tuple(getattr(options, "unfold", ())),
    )


def bounds_from_options(options: argparse.Namespace, format_name: str) -> Bounds:
    """Return the bounds of a document.

    Raises:
        ProftuiError: The format is bounded by rows alone.
    """
    from tui.output.json_document import Bounds

    if options.max_bytes is not None and format_name != "json":
        raise ProftuiError(f"--max-bytes does not apply to {format_name}", "use --format json, or --limit")
    return Bounds(options.limit, options.max_bytes)


def is_single_table(options: argparse.Namespace) -> bool:
    """Return whether a report prints a single table."""
    if options.across is not None and options.values is None:
        raise ProftuiError("--across needs --values", "for example: --values kind --across device")
    is_named = options.table is not None or options.row or options.group_by is not None or options.values is not None
    is_short = options.limit is not None and options.format != "json"
    return bool(is_named or is_short or not selection_from_options(options).is_all)


def table_report(profile: Profile, options: argparse.Namespace, style: Style, notes: pl.DataFrame | None) -> str:
    """Return one table of a view.

    Args:
        profile: The profile.
        options: The arguments of `report`.
        style: How text is written.
        notes: The user's notes, where these are the view.
    """
    from tui.analysis.notes_table import NOTES
    from tui.analysis.sessions import replayed_sessions
    from tui.output.selection import select
    from tui.screens.view_tables import ViewTable, view_table

    if notes is None:
        chosen_table = view_table(profile, options.view, options.table, options.row, options.group_by)
    else:
        chosen_table = ViewTable("table", NOTES, notes)
    selection = selection_from_options(options)
    if options.values is not None:
        selection = replace(selection, columns=(), limit=None)
    selected = select(chosen_table.rows, chosen_table.spec, selection, excluded_sessions=replayed_sessions(profile))
    facts: dict[str, Any] = {}
    if options.values is not None:
        selected, facts = _values(selected, options)
    if options.format == "json":
        fields = {
            "table": chosen_table.name,
            "above": list(options.row),
            "group_by": options.group_by,
            "filter": options.filter or None,
            "sort": options.sort or None,
            **facts,
        }
        return table_document("report", profile, options, selected, view=options.view, fields=fields)
    summary = f"{facts['values_summary']}\n\n" if facts.get("values_summary") else ""
    reason = _empty_reason(profile, options.view, chosen_table.rows, options.filter) if selected.rows.is_empty() else ""
    return summary + (_text(selected, style, reason) if options.format == "text" else _markdown(selected, reason))


def _empty_reason(profile: Profile, view: str, rows: pl.DataFrame, query: str) -> str:
    """Return why none of the rows of a table are selected."""
    from tui.fmt import count
    from tui.output.report import empty_report_reason

    if rows.height and query:
        return f"No row matches --filter '{plain(query)}': the table has {count(rows.height)}."
    return "none" if rows.height or view == "notes" else empty_report_reason(profile, view)


def _values(selected: Selected, options: argparse.Namespace) -> tuple[Selected, dict[str, Any]]:
    """Return the distribution of a column, or sums over two columns, as D and V show in the explorer.

    Args:
        selected: The rows.
        options: The columns, and the number of rows.

    Returns:
        One row per value, and additional fields of the JSON document.
    """
    import polars as pl

    from tui.model.columns import Column, ColumnKind
    from tui.model.table_spec import TableSpec
    from tui.output.selection import Selected, column_name
    from tui.query.distribution import distribution, pivot

    rows, spec = selected.rows, selected.spec
    columns_by_name = {column.name: column for column in spec.columns}
    by = columns_by_name[column_name(options.values, spec, rows, "--values")]
    weight = columns_by_name.get(spec.weight) if spec.weight in rows.columns else None
    summary, labels = None, []
    columns = [Column("value", by.title, by.kind if by.kind is ColumnKind.SYMBOL else ColumnKind.TEXT, by.help, 1)]
    if options.across is None:
        bins = distribution(rows, by, weight.name if weight else "")
        summary = bins.summary
        table: dict[str, list[Any]] = {
            "value": [value.label for value in bins.bins],
            "rows": [value.rows for value in bins.bins],
            **({weight.name: [value.weight for value in bins.bins]} if weight else {}),
            "filter": [value.query for value in bins.bins],
        }
        columns += [Column("rows", "Rows", ColumnKind.COUNT, "Rows with this value.", 1), *([weight] if weight else [])]
    else:
        across = columns_by_name[column_name(options.across, spec, rows, "--across")]
        sums = pivot(rows, by, across, weight.name if weight else "")
        labels = list(sums.across)
        kind = weight.kind if weight else ColumnKind.COUNT
        table = {
            "value": [row.label for row in sums.rows],
            "all": [row.total for row in sums.rows],
            **{f"sum_{index}": [row.sums[index] for row in sums.rows] for index in range(len(labels))},
            "filter": [row.query or None for row in sums.rows],
        }
        columns.append(Column("all", "All", kind, "The sum of all values.", 1))
        columns += [
            Column(f"sum_{index}", label, kind, "The sum of this value.", 2) for index, label in enumerate(labels)
        ]
    frame = pl.DataFrame(table, strict=False)
    values_spec = TableSpec(
        "values", f"{by.title} of {spec.title}", tuple(columns), key=("value",), pinned="value", bars=()
    )
    facts = {
        "values": by.name,
        "values_summary": summary,
        "values_across": labels or None,
        "values_sum": weight.name if weight else None,
    }
    return Selected(frame.slice(0, options.limit), values_spec, frame.height, tuple(frame.columns)), facts


def profiles_report(options: argparse.Namespace, style: Style) -> str:
    """Return the profiles in folders and below, as the home screen lists them.

    Args:
        options: The arguments of `report`.
        style: How text is written.
    """
    from pathlib import Path

    from tui.analysis.found_profiles import PREVIEWED, PROFILES, find_profiles, profiles_frame, with_figures
    from tui.output.json_document import JsonTable, document, schema_fields
    from tui.output.selection import select

    folder = options.files[0]
    if len(options.files) > 1 or not Path(folder).is_dir():
        raise ProftuiError("--view profiles lists one folder", "for example: proftui report . --view profiles")
    results = find_profiles(folder, lists_opened=False)
    looked = [with_figures(profile) for profile in results.profiles[:PREVIEWED]]
    profiles = [listed for listed in (*looked, *results.profiles[PREVIEWED:]) if listed is not None]
    selected = select(profiles_frame(profiles, folder), PROFILES, selection_from_options(options))
    if options.format != "json":
        return _text(selected, style) if options.format == "text" else _markdown(selected)
    omitted = results.left_out or None
    fields = {
        **schema_fields("report"),
        "sources": [],
        "view": options.view,
        **requested_selection(options),
        "left_out": omitted,
    }
    rows = JsonTable(selected.rows, PROFILES.key, selected.total, selected.columns)
    return document(fields, {"rows": rows}, bounds_from_options(options, "json"))


def table_document(
    name: str,
    profile: Profile,
    options: argparse.Namespace,
    selected: Selected,
    *,
    view: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> str:
    """Return the JSON of a table.

    Args:
        name: The schema.
        profile: The profile.
        options: The options, including the bounds.
        selected: The table.
        view: The name of the view or frame.
        fields: Additional fields of the JSON document.
    """
    from tui.output.json_document import JsonTable, document, document_head

    rows = JsonTable(selected.rows, selected.spec.key, selected.total, selected.columns)
    return document(
        {**document_head(name, profile, view=view), **(fields or {})},
        {"rows": rows},
        bounds_from_options(options, "json"),
    )


def table_document_head(
    name: str, profile: Profile, options: argparse.Namespace, frame: str | None = None
) -> dict[str, Any]:
    """Return the JSON fields before the rows of a table."""
    from tui.output.json_document import document_head

    return {**document_head(name, profile), "frame": frame, **requested_selection(options)}


def requested_selection(options: argparse.Namespace) -> dict[str, Any]:
    """Return filter and order as requested."""
    return {"filter": options.filter or None, "sort": options.sort or None}


def exported_key(frame: str, rows: pl.DataFrame) -> tuple[str, ...]:
    """Return the columns that identify a row of an exported frame; none: the row number."""
    from tui.analysis.notes_table import NOTES
    from tui.output.json_document import FRAME_KEYS
    from tui.tables import MODEL_FRAMES, table

    if frame == "notes":
        return NOTES.key
    if frame in MODEL_FRAMES:
        return FRAME_KEYS.get(frame, ())
    key = table(frame).table_spec().key if table(frame).spec else ()
    return key if set(key) <= set(rows.columns) else ()


def selected_table(rows: pl.DataFrame, options: argparse.Namespace, key: Sequence[str]) -> JsonTable:
    """Return the rows of an exported table that the options select.

    Args:
        rows: All rows.
        options: Filter, order, columns and limit.
        key: The columns that identify a row; none: its number.
    """
    from tui.output.json_document import JsonTable, row_keys

    selection = selection_from_options(options)
    if selection.is_all and selection.limit is None:
        return JsonTable(rows, key)
    selected = _select_numbered(rows, selection)
    number = selected.rows.columns[0]
    row_indices = selected.rows[number] - 1
    columns = tuple(name for name in selected.columns if name != number)
    return JsonTable(rows[row_indices], key, selected.total, columns, row_keys(rows, key)[row_indices])


def numbered_selection(rows: pl.DataFrame, options: argparse.Namespace) -> pl.DataFrame:
    """Return the rows of a result that the options select, with their numbers."""
    selected = _select_numbered(rows, selection_from_options(options))
    number = selected.rows.columns[0]
    columns = [name for name in selected.columns if name != number]
    return selected.rows.select(number, *columns) if columns else selected.rows


def _select_numbered(rows: pl.DataFrame, selection: Selection) -> Selected:
    from tui.output.selection import select
    from tui.query.sql.run import result_spec, with_row_numbers

    result = with_row_numbers(rows)
    return select(result, result_spec(result), selection)


def _title(selected: Selected) -> str:
    from tui.fmt import count

    height, total = selected.rows.height, selected.total
    rows = plural(total, "row")
    return f"{selected.spec.title} ({rows if height == total else f'first {count(height)} of {rows}'})"


def _text(selected: Selected, style: Style, reason: str = "none") -> str:
    from tui.output.report import issue_lines, table_lines

    lines = [style.heading(_title(selected)), ""]
    if selected.rows.is_empty():
        lines += style.wrapped(reason)
    elif selected.spec.name == "issues":
        lines += issue_lines(selected.rows, style)
    else:
        lines += table_lines(_with_name(selected.spec), selected.rows, style)
    return "\n".join(lines) + "\n"


def _markdown(selected: Selected, reason: str = "none") -> str:
    from tui.output.report import table_markdown

    heading = f"## {_title(selected)}\n\n"
    return heading + (
        table_markdown(_with_name(selected.spec), selected.rows) if selected.rows.height else f"{reason}\n"
    )


def _with_name(spec: TableSpec) -> TableSpec:
    """Return the table with a column that names its rows, even if only other columns are selected."""
    names = [column.name for column in spec.columns]
    return spec if spec.pinned in names else replace(spec, pinned=names[0])
