"""Keys of the view of iterations and of its chart."""

from __future__ import annotations

from typing import Final

from tui.keys.action import GO, MOVE, WORK, Action, Scope

ITER = Scope.ITERATIONS
CHART = Scope.CHART

ITERATIONS: Final = (
    Action(
        "iterations.worst",
        "t",
        "go_to_slowest",
        "slowest",
        "Go to the slowest iteration; again: the next slowest.",
        ITER,
        MOVE,
        footer=1,
    ),
    Action(
        "iterations.span",
        "b",
        "mark_span",
        "span",
        "Start a span of iterations here; again: end it here.",
        ITER,
        WORK,
    ),
    Action(
        "iterations.aggregate",
        "a",
        "aggregate",
        "aggregate",
        "Show only the span, or this iteration, in every view (as :iterations 3:7).",
        ITER,
        WORK,
    ),
    Action(
        "iterations.steady",
        "p",
        "aggregate_steady",
        "steady iterations",
        "Show the proposed steady iterations in every view.",
        ITER,
        WORK,
    ),
    Action(
        "iterations.key", "E", "pick_key", "key", "Choose the loop, or the name that ends an iteration.", ITER, WORK
    ),
    Action(
        "iterations.zoom-in",
        "plus,equals_sign",
        "zoom(1)",
        "zoom in",
        "Zoom in.",
        ITER,
        MOVE,
        shown_keys="+ =",
    ),
    Action(
        "iterations.zoom-out",
        "underscore",
        "zoom(-1)",
        "zoom out",
        "Zoom out.",
        ITER,
        MOVE,
        shown_keys="_",
    ),
    Action(
        "iterations.fit", "z", "fit_chart", "fit", "Fit all iterations, or the chosen ones, into the chart.", ITER, MOVE
    ),
    Action(
        "chart.right", "l,right,j,down", "move(1)", "right", "Go to the next bar.", CHART, MOVE, shown_keys="l right"
    ),
    Action(
        "chart.left", "h,left,k,up", "move(-1)", "left", "Go to the previous bar.", CHART, MOVE, shown_keys="h left"
    ),
    Action(
        "chart.first",
        "g,home",
        "move_to_end(0)",
        "first",
        "Go to the first iteration.",
        CHART,
        MOVE,
        shown_keys="g Home",
    ),
    Action(
        "chart.last", "G,end", "move_to_end(1)", "last", "Go to the last iteration.", CHART, MOVE, shown_keys="G End"
    ),
    Action(
        "chart.page-right",
        "ctrl+d,pagedown",
        "pan(1)",
        "pan right",
        "Scroll right by half the chart.",
        CHART,
        MOVE,
        shown_keys="ctrl+d PgDn",
    ),
    Action(
        "chart.page-left",
        "ctrl+u,pageup",
        "pan(-1)",
        "pan left",
        "Scroll left by half the chart.",
        CHART,
        MOVE,
        shown_keys="ctrl+u PgUp",
    ),
    Action(
        "chart.open",
        "enter",
        "open",
        "open",
        "Aggregate the span, or show the kernels of the iteration.",
        CHART,
        GO,
        footer=1,
    ),
    Action("chart.detail", "i", "screen.toggle_row_detail", "details", "Show details of the iteration.", CHART, GO),
)
