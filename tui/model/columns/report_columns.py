"""Columns of layers, metrics, tool reports, notes and comparisons."""

from __future__ import annotations

from typing import Final

from tui.model.table_spec import Column, ColumnKind

K = ColumnKind
_LAYER_TIMES: Final = ("measured_ns", "predicted_ns")
_MEASURED_ON: Final = ("kernel", "metric")
"""One is meaningless without the other: they share the width."""

MEASURED: Final = (
    Column("layer", "Layer", K.TEXT, "Layer of the model, as named by the input.", 1),
    Column(
        "executor",
        "Executor",
        K.TEXT,
        "Framework that ran the layer (caffe, cudnn, tensorflow); paleo where only predicted.",
        1,
    ),
    Column(
        "measured_ns",
        "Measured",
        K.DURATION,
        "Measured time of the layer.",
        1,
        ("measured",),
        compared_with=_LAYER_TIMES,
    ),
    Column(
        "predicted_ns",
        "Predicted",
        K.DURATION,
        "Predicted time of the layer.",
        2,
        ("predicted",),
        compared_with=_LAYER_TIMES,
    ),
    Column("ratio", "Pred/meas", K.RATIO, "Predicted / measured: above 1 the layer was faster than predicted.", 2),
    Column("algorithm", "Algorithm", K.TEXT, "Convolution algorithm that ran.", 5),
    Column("predicted_algorithm", "Predicted algorithm", K.TEXT, "Convolution algorithm of the prediction.", 7),
    Column("workspace_bytes", "Workspace", K.SIZE, "Workspace of the predicted algorithm.", 7),
    Column("output_shape", "Output", K.TEXT, "Shape of the layer's output.", 6),
    Column("filter_shape", "Filter", K.TEXT, "Shape of the layer's weights.", 7),
    Column("params", "Params", K.COUNT, "Number of weights of the layer.", 7),
    Column("position", "#", K.NUMBER, "Position in the model, from 0.", 8),
    Column("model", "Model", K.TEXT, "Model, as named by the input.", 8),
    Column("layers", "Layers", K.COUNT, "Number of rows of the layer table in it.", 5),
    Column("kernel", "Kernel", K.SYMBOL, "Kernel that the metric was measured on.", 1, compared_with=_MEASURED_ON),
    Column("metric", "Metric", K.TEXT, "Metric or event, by the profiler's name.", 1, compared_with=_MEASURED_ON),
    Column("avg", "Avg", K.MEASURE, "Mean over invocations.", 2),
    Column("min", "Min", K.MEASURE, "Minimum.", 4),
    Column("max", "Max", K.MEASURE, "Maximum.", 4),
    Column("total", "Total", K.MEASURE, "Sum over all invocations, where recorded (events).", 6),
    Column(
        "unit",
        "Unit",
        K.TEXT,
        "Unit of exported values: ns, %, B/s, B, level (0 idle to 10 max); counts and ratios have none.",
        8,
    ),
    Column("invocations", "Calls", K.NUMBER, "Number of invocations.", 5),
    Column("description", "Description", K.TEXT, "Description of the metric, by the profiler.", 6),
    Column("device_name", "GPU", K.TEXT, "GPU model, as recorded.", 8),
    Column(
        "section",
        "Section",
        K.TEXT,
        "unified memory, operating system (its calls), OpenACC, OpenMP, NVTX, CPU samples, op or dependency.",
        3,
    ),
    Column("cpu_memory_bytes", "CPU memory", K.SIZE, "Allocated less released by the op and what it calls.", 6),
    Column("cpu_self_memory_bytes", "CPU mem. self", K.SIZE, "Allocated less released by the op itself.", 6),
    Column("gpu_memory_bytes", "GPU memory", K.SIZE, "Allocated less released by the op and what it calls.", 6),
    Column("gpu_self_memory_bytes", "GPU mem. self", K.SIZE, "Allocated less released by the op itself.", 6),
    Column(
        "flops",
        "FLOPs",
        K.COUNT,
        "FLOPs of one call, inferred from its shapes; in PyTorch's printed tables, of all calls of the row.",
        8,
    ),
    Column("tool", "Tool", K.TEXT, "Recording tool.", 7),
    Column("tool_name", "Item", K.TEXT, "A metric or problem, in the words of the tool.", 1),
    Column("tool_value", "Value", K.MEASURE, "Value computed by the tool, in its unit.", 1),
)


_TOTALS: Final = ("a_total_ns", "b_total_ns", "delta_ns")
_SIZES: Final = ("a_bytes", "b_bytes", "peak_delta_bytes")
_CALLS: Final = ("a_calls", "b_calls")
_AVERAGES: Final = ("a_avg_ns", "b_avg_ns")

TABLES: Final = (
    Column("repaired", "Repaired", K.FLAG, "Whether the row was damaged and was repaired.", 8),
    Column("view", "View", K.TEXT, "The view that contains it.", 2),
    Column("row", "Row", K.TEXT, "The annotated row, with the rows above it in other tables.", 1),
    Column("note", "Note", K.TEXT, "Text of the note.", 1),
    Column("written", "Written", K.TEXT, "When it was written, in local time.", 4),
    Column("written_of", "File state", K.TEXT, "The current file, or an earlier version of it.", 3),
    Column(
        "change",
        "Change",
        K.TEXT,
        "new, removed, or similar (names differ and were matched). Empty where both sides have the name, and where the "
        "side without it has no rows, is incomplete, or may not have recorded it.",
        4,
    ),
    Column("a_name", "Baseline name", K.SYMBOL, "Its name in the baseline, where names differ.", 8),
    Column("b_name", "Candidate name", K.SYMBOL, "Its name in the candidate, where names differ.", 8),
    Column(
        "a_total_ns",
        "Baseline",
        K.DURATION,
        "Time in the baseline, per iteration where both have iterations.",
        2,
        compared_with=_TOTALS,
    ),
    Column(
        "b_total_ns",
        "Candidate",
        K.DURATION,
        "Time in the candidate, per iteration where both have iterations.",
        2,
        compared_with=_TOTALS,
    ),
    Column(
        "delta_ns",
        "Diff",
        K.DURATION,
        "Candidate minus baseline; new and removed rows count as 0 on the other side.",
        1,
        is_signed=True,
        is_growth=True,
        compared_with=_TOTALS,
    ),
    Column("a_bytes", "Baseline", K.SIZE, "Live at the peak of the baseline.", 2, compared_with=_SIZES),
    Column("b_bytes", "Candidate", K.SIZE, "Live at the peak of the candidate.", 2, compared_with=_SIZES),
    Column(
        "peak_delta_bytes",
        "Diff",
        K.SIZE,
        "Candidate minus baseline; new and removed rows count as 0 on the other side.",
        1,
        is_signed=True,
        is_growth=True,
        compared_with=_SIZES,
    ),
    Column("a_allocations", "Baseline allocs", K.COUNT, "Allocations live at the peak of the baseline.", 6),
    Column("b_allocations", "Candidate allocs", K.COUNT, "Allocations live at the peak of the candidate.", 6),
    Column(
        "delta_pct", "Diff%", K.PERCENT, "Difference as a share of the baseline.", 3, is_signed=True, is_growth=True
    ),
    Column(
        "a_calls",
        "Baseline calls",
        K.COUNT,
        "Calls in the baseline, per iteration where times are.",
        6,
        compared_with=_CALLS,
    ),
    Column(
        "b_calls",
        "Candidate calls",
        K.COUNT,
        "Calls in the candidate, per iteration where times are.",
        6,
        compared_with=_CALLS,
    ),
    Column("a_avg_ns", "Baseline avg", K.DURATION, "Time per call in the baseline.", 7, compared_with=_AVERAGES),
    Column("b_avg_ns", "Candidate avg", K.DURATION, "Time per call in the candidate.", 7, compared_with=_AVERAGES),
    *(
        Column(
            f"{side}_{name}",
            f"{title} {quantity}",
            kind,
            f"{meaning} of calls with a formula, in the {title.lower()}. Inferred.",
            priority,
            compared_with=(f"a_{name}", f"b_{name}"),
            is_unit_in_title=kind is K.RATIO,
        )
        for name, quantity, kind, meaning, priority in (
            ("roof_pct", "Roofline%", K.PERCENT, "Least time that the GPU's peaks allow / GPU time", 6),
            ("tflops_per_s", "TFLOP/s", K.RATIO, "10^12 FLOPs per second of GPU time", 7),
            ("tb_per_s", "TB/s", K.RATIO, "10^12 bytes per second of GPU time", 8),
        )
        for side, title in (("a", "Baseline"), ("b", "Candidate"))
    ),
    Column(
        "avg_delta_pct",
        "Avg diff%",
        K.PERCENT,
        "Difference of the time per call, as a share of the baseline.",
        5,
        is_signed=True,
    ),
    Column(
        "unknown_reason",
        "Unknown in",
        K.TEXT,
        "Sessions without recorded times or calls: a sum that lacks their part is unknown. If calls have no "
        "duration, the sum covers the others and is a lower bound.",
        3,
    ),
)
