# SPDX-License-Identifier: Apache-2.0
"""onnxruntime as the independent reference for an ONNX model."""

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    RuntimeException,
)

from arm_ext.frontends.onnx.weights import Serialised

_NONE: Mapping[str, npt.NDArray[Any]] = MappingProxyType({})

REFUSALS = (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeException)
"""Exceptions that onnxruntime raises for a model that it cannot run."""


def reference(model: Serialised, inputs: Sequence[npt.NDArray[Any]]) -> tuple[list[npt.NDArray[Any]], str]:
    """Run a model as onnxruntime would compute it in integers, or where it cannot, node by node in float.

    Returns:
        The outputs, none if onnxruntime cannot run the model at all; and its name, version and settings.
    """
    name = f"onnxruntime {onnxruntime.__version__}"
    for integers, settings in ((True, ""), (False, ", unoptimised")):
        try:
            return run_onnxruntime(
                model.model, inputs, integers=integers, weights=model.weights
            ), name + settings
        except REFUSALS as err:
            refusal = str(err).strip().splitlines()[0]
    return [], f"{name} cannot run it: {refusal}"


def run_onnxruntime(
    model: bytes,
    inputs: Sequence[npt.NDArray[Any]],
    *,
    integers: bool,
    weights: Mapping[str, npt.NDArray[Any]] = _NONE,
) -> list[npt.NDArray[Any]]:
    """Run a serialised model on one thread.

    Args:
        model: The serialised model.
        inputs: Inputs in the model's order.
        integers: Whether to compute QDQ groups in integers, all optimisations on; else every node on its own, in
            float between quantise and dequantise.
        weights: Weights that are not in `model`, which refers to them as external data.
    """
    session = open_session(Serialised(model, dict(weights)), integers=integers)
    feed = dict(zip((value.name for value in session.get_inputs()), inputs, strict=True))
    return [np.asarray(value) for value in session.run(None, feed)]


def open_session(model: Serialised, *, integers: bool) -> onnxruntime.InferenceSession:
    """Return a session on one thread; `integers` as for `run_onnxruntime`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if integers:
        # Without this, x86 computes signed convolutions in float.
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        # float32: by default, a product with weights of 4 bits rounds its data to 8 bits, which no model says.
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        if platform.machine() == "x86_64" and not _has_vnni():
            # Without VNNI, u8 x s8 pairs saturate in int16. With both settings, onnxruntime 1.31 finds no kernel for
            # some signed models.
            options.add_session_config_entry("session.x64quantprecision", "1")
    else:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    held = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in model.weights.values()]
    options.add_external_initializers(list(model.weights), held)
    return onnxruntime.InferenceSession(model.model, options, providers=["CPUExecutionProvider"])


Job = tuple[bytes, list[npt.NDArray[Any]]]
"""A serialised model of one output, and its inputs."""

Shown = tuple[str, tuple[int, ...]] | None
"""Dtype and shape of the output, or None where onnxruntime cannot run the model."""


class OneOutput:
    """Runs models in a separate process, which an invalid model may end."""

    def __call__(self, job: Job, /) -> Shown:
        """Return what a model gives."""
        try:
            (array,) = run_onnxruntime(*job, integers=False)
        except REFUSALS:
            return None
        return array.dtype.name, array.shape

    def close(self) -> None:
        """Do nothing: no process was started."""


def _has_vnni() -> bool:
    return "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
