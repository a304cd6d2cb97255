"""One self-contained HTML page: its style, tables and charts. It needs no network, and no script to be readable."""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui import __version__
from tui.colors import BASE_DARK, BASE_LIGHT, KINDS_DARK, KINDS_LIGHT
from tui.fmt import count
from tui.model.columns import ColumnKind
from tui.text import plain

if TYPE_CHECKING:
    import polars as pl

    from tui.output.text_table import WrittenColumn

MAX_ROWS: Final = 1_000
"""Rows of a table on a page; the title gives the number of the others."""

_LONG: Final = 16
"""The minimum length of a text that may be wrapped."""
_MAX_UNCUT: Final = 120
"""A name that is longer is cut to a few lines until the pointer is on it."""

_SCRIPT: Final = """
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const was = head.getAttribute("aria-sort");
      const down = was ? was === "ascending" : head.className === "num";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[place].dataset.v ?? row.cells[place].textContent;
      const compare = (a, b) => a === "" || b === "" ? (a === "") - (b === "")
        : (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b) * (down ? -1 : 1);
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b))));
    };
  });
}
"""
"""Sorts tables on a click on a heading; rows without a value are last."""

_STYLE: Final = """
* { box-sizing: border-box }
body { margin: 0; background: var(--background); color: var(--foreground); font: 15px/1.5 system-ui, sans-serif }
main, header, footer { max-width: 76rem; margin: 0 auto; padding: 0 1rem }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 1.5rem 0 .25rem; overflow-wrap: anywhere }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; overflow-wrap: anywhere }
h3 { font-size: .95rem; margin: 1.25rem 0 .35rem; overflow-wrap: anywhere }
p { margin: .35rem 0; overflow-wrap: anywhere }
a { color: var(--accent) }
nav a { display: inline-block; margin-right: 1rem }
.muted, figcaption { color: var(--muted); font-size: .87rem }
.start { border-left: 3px solid var(--accent); padding: .4rem .8rem; background: var(--surface) }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .5rem; margin: 0 }
.figures div { background: var(--surface); border-radius: 4px; padding: .5rem .7rem }
.figures dt { color: var(--muted); font-size: .82rem }
.figures dd { margin: 0; font-size: 1.05rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere }
figure { margin: .75rem 0 }
figure svg { display: block; width: 100%; background: var(--surface) }
.axis { display: flex; justify-content: space-between; color: var(--muted); font-size: .8rem }
.legend { list-style: none; padding: 0; margin: .4rem 0; display: flex; flex-wrap: wrap; gap: .15rem 1.2rem }
.legend i { display: inline-block; width: .75rem; height: .75rem; margin-right: .4rem; vertical-align: -.05rem }
.finding { border-left: 3px solid var(--muted); padding: .1rem .8rem; margin: .9rem 0 }
.finding.error { border-color: var(--error) }
.finding.warning { border-color: var(--warning) }
.finding b { text-transform: capitalize }
.error > b { color: var(--error) }
.warning > b { color: var(--warning) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums }
th, td { text-align: left; vertical-align: top; padding: .28rem .6rem; border-bottom: 1px solid var(--panel) }
th { white-space: nowrap; color: var(--muted); font-weight: 600 }
th button { all: unset; cursor: pointer }
th button:focus-visible { outline: 2px solid var(--accent) }
th[aria-sort=descending] button::after { content: " \\25BE" }
th[aria-sort=ascending] button::after { content: " \\25B4" }
.num { text-align: right; white-space: nowrap }
.share { background: linear-gradient(var(--bar), var(--bar)) left calc(.28rem + 1.5em) / var(--p) 3px no-repeat }
td > div { max-width: 40rem; overflow-wrap: anywhere; white-space: pre-wrap }
td > div.short { white-space: pre }
td > div.long { width: max-content; max-width: min(24rem, 55vw) }
td > div.symbol { min-width: 15rem; font-family: ui-monospace, monospace; font-size: .82rem;
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden }
td > div.symbol:hover { -webkit-line-clamp: unset }
pre { overflow-x: auto; background: var(--surface); padding: .6rem; font-size: .8rem }
footer { color: var(--muted); font-size: .82rem; padding-top: 2rem; padding-bottom: 2rem }
@media print { nav { display: none } td > div.symbol { -webkit-line-clamp: unset } }
"""


def _variables(base: Mapping[str, str], kinds: Mapping[str, str]) -> str:
    return "; ".join(f"--{name}: {color}" for name, color in {**base, **kinds}.items())


_HEAD_STYLE: Final = (
    f":root {{ color-scheme: light dark; {_variables(BASE_LIGHT, KINDS_LIGHT)} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(BASE_DARK, KINDS_DARK)} }} }}{_STYLE}"
)
_SCRIPT_HASH: Final = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_SCRIPT_HASH}'"
"""The browser loads nothing and runs only this script, whatever a profile contains."""


def escape_text(text: str) -> str:
    """Escape a text for the page.

    >>> escape_text('gemm<float> & "x"')
    'gemm&lt;float&gt; &amp; &quot;x&quot;'
    """
    return html.escape(plain(text).translate(_NO_CHARACTERS))


def prose(sentence: str) -> str:
    """Escape a sentence for the page; names between backquotes become code.

    >>> prose("mostly `gemm<float>`")
    'mostly <code>gemm&lt;float&gt;</code>'
    """
    return _NAME.sub(r"<code>\1</code>", escape_text(sentence))


_NAME: Final = re.compile("`([^`]+)`")
_NO_CHARACTERS: Final = {0xFFFE: "·", 0xFFFF: "·"}
"""Characters that are invalid in XML."""


def page(title: str, sections: Iterable[tuple[str, str]], *, lead: str = "", footer: str = "") -> str:
    """Return a complete page.

    Args:
        title: The title, as text.
        sections: The heading (text) and content (markup) of each section; empty sections are omitted.
        lead: Markup below the title.
        footer: The time of writing, as text.
    """
    filled = [(f"s{index}", heading, body) for index, (heading, body) in enumerate(sections) if body]
    links = " ".join(f'<a href="#{name}">{escape_text(heading.partition(" (")[0])}</a>' for name, heading, _ in filled)
    bodies = "\n".join(
        f'<section id="{name}">\n<h2>{escape_text(heading)}</h2>\n{body}\n</section>' for name, heading, body in filled
    )
    nav = f"\n<nav>{links}</nav>" if len(filled) > 1 else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8" />\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}" />\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1" />\n'
        f"<title>{escape_text(title)} – proftui</title>\n<style>{_HEAD_STYLE}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{escape_text(title)}</h1>\n{lead}{nav}\n</header>\n<main>\n{bodies}\n</main>\n"
        f"<footer>{escape_text(', '.join(filter(None, (f'Written by proftui {__version__}', footer))))}.</footer>\n"
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def paragraph(text: str, *, muted: bool = False) -> str:
    """Return a paragraph; empty for an empty text."""
    attribute = ' class="muted"' if muted else ""
    return f"<p{attribute}>{prose(text)}</p>\n" if text else ""


def html_table(columns: Sequence[WrittenColumn], rows: pl.DataFrame, *, pinned: str = "") -> str:
    """Return a sortable table; every number carries its value in base units.

    Args:
        columns: The columns with their texts (`tui.output.text_table.write_columns`).
        rows: The values behind the texts.
        pinned: The column that names a row, which comes first.
    """
    ordered = sorted(columns, key=lambda column: column.column.name != pinned)
    heads = "".join(
        f'<th class="{"" if written.is_text else "num"}" title="{escape_text(written.column.help)}">'
        f"{escape_text(written.heading)}</th>"
        for written in ordered
    )
    cells = zip(*(_cells(column, rows) for column in ordered), strict=True)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return (
        f'<div class="scroll"><table class="sorts">\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>\n"
    )


def _cells(written: WrittenColumn, rows: pl.DataFrame) -> Iterable[str]:
    if written.is_text:
        is_long = any(len(cell) > _LONG for cell in written.cells)
        # A name without blanks, such as a mangled one, would make its row fill the page.
        is_symbol = written.column.kind is ColumnKind.SYMBOL or any(
            len(cell) > _MAX_UNCUT and " " not in cell.strip() for cell in written.cells
        )
        css_class = "symbol" if is_symbol else "long" if is_long else "short"
        return (
            f'<td><div class="{css_class}"{_indent(cell)}>{escape_text(cell.lstrip(" "))}</div></td>'
            for cell in written.cells
        )
    is_share = written.column.kind is ColumnKind.PERCENT and not written.column.is_signed
    return (
        f'<td class="{"num share" if is_share else "num"}" data-v="{_value(value)}"{_share(value) if is_share else ""}>'
        f"{escape_text(cell)}</td>"
        for cell, value in zip(written.cells, rows[written.column.name].to_list(), strict=True)
    )


def _indent(cell: str) -> str:
    """Return the style that indents all lines of a cell by its leading blanks, the depth in a tree."""
    blanks = len(cell) - len(cell.lstrip(" "))
    return f' style="padding-left: {blanks}ch"' if blanks else ""


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return repr(value) if isinstance(value, (int, float)) else ""


def _share(value: float | None) -> str:
    return f' style="--p: {min(100.0, max(0.0, value or 0.0)):.1f}%"'


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts without sorting; empty headings are omitted."""
    heads = "".join(f"<th>{escape_text(heading)}</th>" for heading in headings)
    written = ("".join(f"<td><div>{escape_text(cell)}</div></td>" for cell in row) for row in rows)
    body = "\n".join(f"<tr>{cells}</tr>" for cells in written)
    head = f"<thead><tr>{heads}</tr></thead>\n" if heads else ""
    return f'<div class="scroll"><table>\n{head}<tbody>\n{body}\n</tbody>\n</table></div>\n'


def first_rows(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the rows that a page shows, and a sentence if there are more."""
    if rows.height <= MAX_ROWS:
        return rows, ""
    return rows.head(MAX_ROWS), f"First {count(MAX_ROWS)} of {count(rows.height)} rows. proftui export writes all rows."


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar."""

    label: str
    value: float
    """Its length; of a legend's entry without a length, 0."""
    value_text: str
    """The value for people."""
    color: str
    """The name of a color in `tui.colors`."""


def stacked_bar(parts: Sequence[BarPart], title: str) -> str:
    """Return parts of a whole as one bar, with a legend of their values."""
    total = sum(part.value for part in parts)
    if total <= 0:
        return ""
    shapes, x_offset = [], 0.0
    for part in parts:
        width = 1000 * part.value / total
        if width > 0:
            shapes.append(
                f'<rect x="{x_offset:.2f}" y="0" width="{width:.2f}" height="10" fill="var(--{part.color})">'
                f"<title>{escape_text(f'{part.label}: {part.value_text}')}</title></rect>"
            )
        x_offset += width
    return _figure(shapes, title, height=28, box="0 0 1000 10", below=color_legend(parts))


def bars(rows: Sequence[Sequence[BarPart]], title: str, *, scale: float, reference: float | None = None) -> str:
    """Return stacked columns side by side.

    Args:
        rows: The parts of each column, the lowest first.
        title: The title of the chart.
        scale: The value at full height; longer columns are cut.
        reference: The value of a dashed line.
    """
    if scale <= 0 or not rows:
        return ""
    step = 1000 / len(rows)
    shapes = []
    for index, parts in enumerate(rows):
        tooltip = "; ".join(f"{part.label} {part.value_text}".strip() for part in parts)
        top = 100.0
        drawn = []
        for part in parts:
            height = min(top, 100 * part.value / scale)
            top -= height
            if height > 0:
                drawn.append(
                    f'<rect x="{index * step + step * 0.06:.2f}" y="{top:.2f}" width="{step * 0.88:.2f}" '
                    f'height="{height:.2f}" fill="var(--{part.color})" />'
                )
        shapes.append(f"<g><title>{escape_text(tooltip)}</title>{''.join(drawn)}</g>")
    if reference is not None and reference < scale:
        y = 100 - 100 * reference / scale
        shapes.append(
            f'<line x1="0" x2="1000" y1="{y:.2f}" y2="{y:.2f}" stroke="var(--foreground)" stroke-dasharray="6 6" '
            'vector-effect="non-scaling-stroke" />'
        )
    return _figure(shapes, title, height=150, box="0 0 1000 100")


def area_svg(shares: Sequence[float], title: str, color: str) -> str:
    """Return shares from 0 to 1 over time as a filled area."""
    if not shares:
        return ""
    step = 1000 / len(shares)
    edges = [
        f"{x:.1f},{100 - 100 * share:.1f}"
        for index, share in enumerate(shares)
        for x in (index * step, (index + 1) * step)
    ]
    shape = f'<polygon points="0,100 {" ".join(edges)} 1000,100" fill="var(--{color})" />'
    return _figure([shape], title, height=70, box="0 0 1000 100")


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark of a plot."""

    x: float
    y: float
    share: float
    """Its weight, of 1: the area grows with it."""
    tooltip: str
    color: str
    """The name of a color in `tui.colors`."""


_PLOT: Final = (1000, 420)
_MARGIN: Final = (60, 36)
"""The margins on the left of and below a plot."""


def log_plot(dots: Sequence[Dot], lines: Sequence[tuple[str, Sequence[tuple[float, float]]]], title: str) -> str:
    """Return marks and lines on two logarithmic axes, labeled at the powers of ten.

    Args:
        dots: The marks, all above 0.
        lines: The label and the corners of each line; the label is at the last corner.
        title: The title of the chart.
    """
    if not dots:
        return ""
    corners = [corner for _, line_corners in lines for corner in line_corners]
    (x_low, x_high), (y_low, y_high) = (
        _decades([*(getattr(dot, axis) for dot in dots), *(corner[axis_index] for corner in corners)])
        for axis_index, axis in enumerate("xy")
    )
    (width, height), (left_margin, bottom_margin) = _PLOT, _MARGIN

    def to_pixels(x: float, y: float) -> tuple[float, float]:
        x_share = (math.log10(x) - x_low) / (x_high - x_low)
        y_share = (math.log10(y) - y_low) / (y_high - y_low)
        return left_margin + x_share * (width - left_margin - 20), (height - bottom_margin) * (
            1 - y_share
        ) + 8 * y_share

    muted = 'stroke="var(--muted)" stroke-width="0.5" opacity="0.5"'
    letters = 'fill="var(--muted)" font-size="13"'
    shapes = []
    for power in range(x_low, x_high + 1):
        x, y = to_pixels(10.0**power, 10.0**y_low)
        shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{y:.1f}" {muted} />')
        shapes.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle" {letters}>{10.0**power:g}</text>')
    for power in range(y_low, y_high + 1):
        x, y = to_pixels(10.0**x_low, 10.0**power)
        shapes.append(f'<line x1="{x:.1f}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" {muted} />')
        shapes.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end" {letters}>{10.0**power:g}</text>')
    for label, line_corners in lines:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (to_pixels(*corner) for corner in line_corners))
        x, y = to_pixels(*line_corners[-1])
        shapes.append(f'<polyline points="{points}" fill="none" stroke="var(--foreground)" />')
        shapes.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="end" {letters}>{escape_text(label)}</text>')
    for dot in sorted(dots, key=lambda mark: -mark.share):
        x, y = to_pixels(dot.x, dot.y)
        shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 + 17 * math.sqrt(dot.share):.1f}" fill="var(--{dot.color})" '
            f'fill-opacity="0.75"><title>{escape_text(dot.tooltip)}</title></circle>'
        )
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape_text(title)}">\n'
        f"{''.join(shapes)}\n</svg></figure>\n"
    )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around all values."""
    logs = [math.log10(value) for value in values]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return low, max(high, low + 1)


def color_legend(parts: Sequence[BarPart]) -> str:
    """Return the meaning of each color."""
    entries = "".join(
        f'<li><i style="background: var(--{part.color})"></i>{escape_text(part.label)} '
        f'<span class="muted">{escape_text(part.value_text)}</span></li>'
        for part in parts
    )
    return f'<ul class="legend">{entries}</ul>'


def axis(*labels: str) -> str:
    """Return labels below a chart, from left to right."""
    return f'<div class="axis">{"".join(f"<span>{escape_text(label)}</span>" for label in labels)}</div>'


def _figure(shapes: Iterable[str], title: str, *, height: int, box: str, below: str = "") -> str:
    return (
        f'<figure><svg viewBox="{box}" height="{height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape_text(title)}">\n{"".join(shapes)}\n</svg>{below}</figure>\n'
    )
