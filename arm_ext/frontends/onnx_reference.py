# SPDX-License-Identifier: Apache-2.0
"""onnxruntime as the foreign reference for an ONNX model."""

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, NotImplemented, RuntimeException

_REFUSALS = (Fail, InvalidGraph, NotImplemented, RuntimeException)


def reference(model: bytes, inputs: Sequence[npt.NDArray[Any]]) -> tuple[list[npt.NDArray[Any]], str]:
    """Run a model as onnxruntime would compute it in integers, or where it cannot, node by node in float.

    Returns:
        The outputs, none if onnxruntime cannot run the model at all; and its name, version and settings.
    """
    name = f"onnxruntime {onnxruntime.__version__}"
    for integers, settings in ((True, ""), (False, ", unoptimised")):
        try:
            return run_onnxruntime(model, inputs, integers=integers), name + settings
        except _REFUSALS as err:
            refusal = str(err).strip().splitlines()[0]
    return [], f"{name} cannot run it: {refusal}"


def run_onnxruntime(
    model: bytes, inputs: Sequence[npt.NDArray[Any]], *, integers: bool
) -> list[npt.NDArray[Any]]:
    """Run a serialised model on one thread.

    Args:
        model: Serialised.
        inputs: In the model's order.
        integers: Whether to compute QDQ groups in integers, all optimisations on; else every node on its own, in
            float between quantise and dequantise.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if integers:
        # Without this, x86 computes signed convolutions in float.
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        if platform.machine() == "x86_64" and not _has_vnni():
            # Without VNNI, u8 x s8 pairs saturate in int16. With both settings, onnxruntime 1.31 finds no kernel for
            # some signed models.
            options.add_session_config_entry("session.x64quantprecision", "1")
    else:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = dict(zip((value.name for value in session.get_inputs()), inputs, strict=True))
    return [np.asarray(value) for value in session.run(None, feed)]


def _has_vnni() -> bool:
    return "vnni" in Path("/proc/cpuinfo").read_text()
