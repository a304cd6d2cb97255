"""Columns of layers, metrics and what other tools worked out."""

from __future__ import annotations

from typing import Final

from tui.model.columns.column import Column, ColumnKind

K = ColumnKind
_LAYER_TIMES: Final = ("measured_ns", "predicted_ns")
_MEASURED_ON: Final = ("kernel", "metric")
"""Neither says anything without the other: they share the room."""

MEASURED: Final = (
    Column("layer", "Layer", K.TEXT, "Layer of the model, as the input names it.", 1),
    Column("phase", "Phase", K.TEXT, "forward, backward, backward data or backward filter.", 2),
    Column(
        "executor",
        "Run by",
        K.TEXT,
        "What ran the layer (caffe, cudnn, tensorflow); paleo where it is predicted alone.",
        1,
    ),
    Column(
        "measured_ns",
        "Measured",
        K.DURATION,
        "How long the layer took.",
        1,
        ("measured",),
        compared_with=_LAYER_TIMES,
    ),
    Column(
        "predicted_ns",
        "Predicted",
        K.DURATION,
        "How long the model says that it takes.",
        2,
        ("predicted",),
        compared_with=_LAYER_TIMES,
    ),
    Column("ratio", "Pred/meas", K.RATIO, "Predicted / measured: above 1 the layer was faster than predicted.", 2),
    Column("algorithm", "Algorithm", K.TEXT, "Convolution algorithm that was run.", 5),
    Column("predicted_algorithm", "Predicted algorithm", K.TEXT, "Convolution algorithm that the prediction is of.", 7),
    Column("workspace_bytes", "Workspace", K.SIZE, "What the predicted algorithm needs.", 7),
    Column("output_shape", "Output", K.TEXT, "Shape of the layer's output.", 6),
    Column("filter_shape", "Filter", K.TEXT, "Shape of the layer's weights.", 7),
    Column("params", "Params", K.COUNT, "Weights of the layer.", 7),
    Column("position", "#", K.NUMBER, "Place in the model, from 0.", 8),
    Column("model", "Model", K.TEXT, "As the input names it.", 8),
    Column("layers", "Layers", K.COUNT, "How many rows of the table of layers it is of.", 5),
    Column("kernel", "Kernel", K.SYMBOL, "What the metric was measured on.", 1, compared_with=_MEASURED_ON),
    Column("metric", "Metric", K.TEXT, "Metric or event, by the profiler's name.", 1, compared_with=_MEASURED_ON),
    Column("avg", "Avg", K.MEASURE, "Mean over the invocations.", 2),
    Column("min", "Min", K.MEASURE, "Smallest.", 4),
    Column("max", "Max", K.MEASURE, "Largest.", 4),
    Column("total", "Total", K.MEASURE, "Over all invocations, where the input has it (events).", 6),
    Column(
        "unit",
        "Exported as",
        K.TEXT,
        "What values are exported in: ns, %, B/s, B, level (0 idle to 10 max); counts and ratios have none.",
        8,
    ),
    Column("invocations", "Calls", K.NUMBER, "How often the kernel ran.", 5),
    Column("description", "Description", K.TEXT, "What the metric says, in the profiler's words.", 6),
    Column("device_name", "GPU", K.TEXT, "GPU, as the input names it.", 8),
    Column(
        "section",
        "Section",
        K.TEXT,
        "um (unified memory), os (calls of the operating system), openacc, openmp, nvtx, cpu or dependency.",
        3,
    ),
    Column("tool", "Tool", K.TEXT, "The recording tool that says so.", 7),
    Column("tool_name", "What it says", K.TEXT, "A figure or a problem, in the tool's own words.", 1),
    Column("tool_value", "Value", K.MEASURE, "As the tool worked it out, in its unit.", 1),
)
