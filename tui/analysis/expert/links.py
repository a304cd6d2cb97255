"""Where the ideas and thresholds of rules come from, to read more."""

from __future__ import annotations

from typing import Final

TENSORBOARD: Final = "https://github.com/pytorch/kineto/blob/main/tb_plugin/torch_tb_profiler/profiler/data.py"
NSIGHT: Final = "https://docs.nvidia.com/nsight-systems/AnalysisGuide/index.html"
ROOT_CAUSES: Final = "https://github.com/GindaChen/nsys-ai"
HTA: Final = "https://github.com/facebookresearch/HolisticTraceAnalysis"
ADVISOR: Final = "https://github.com/Ascend/msprof-analyze"
SAGEMAKER: Final = "https://github.com/awslabs/sagemaker-debugger-rulesconfig"
VISUAL_PROFILER: Final = "https://docs.nvidia.com/cuda/profiler-users-guide/index.html"
TRACELENS: Final = "https://github.com/AMD-AGI/TraceLens"
RATELPROF: Final = "https://github.com/Kassouley/RATELProf"
NSIGHT_COMPUTE: Final = "https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html"
TAIL: Final = "https://developer.nvidia.com/blog/cuda-pro-tip-minimize-the-tail-effect/"
DLPROF: Final = "https://docs.nvidia.com/deeplearning/frameworks/dlprof-user-guide/"
LAYOUT: Final = "https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html"
