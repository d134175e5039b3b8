# SPDX-License-Identifier: Apache-2.0
"""Comparison of a quantised ONNX model with its float form on calibration samples, in onnxruntime."""

from collections.abc import Iterable

import numpy as np
import onnx

from arm_ext.frontends.onnx.reference import REFUSALS, IsolatedSession, open_session
from arm_ext.frontends.onnx.weights import serialise
from arm_ext.quantization.accuracy import Accuracy
from arm_ext.quantization.steps import Feed

COMPARED = 64
"""Samples that are compared at most, spread evenly."""


def compare_on(
    reference: onnx.ModelProto, quantized: onnx.ModelProto, feeds: Iterable[Feed], count: int
) -> Accuracy:
    """Run both models on at most COMPARED samples.

    Args:
        reference: The float model.
        quantized: The quantised model in QDQ form, computed in integers where onnxruntime can.
        feeds: Samples to compare on.
        count: Number of samples.
    """
    accuracy = Accuracy([value.name for value in reference.graph.output])
    chosen = {round(place) for place in np.linspace(0, count - 1, min(count, COMPARED))}
    exact, ours = _session(reference), _session(quantized)
    if exact is None or ours is None:
        return accuracy
    for place, feed in enumerate(feeds):
        if place in chosen:
            accuracy.add(*(session.run(list(accuracy.outputs), feed) for session in (ours, exact)))
    return accuracy


def _session(model: onnx.ModelProto) -> IsolatedSession | None:
    for integers in (True, False):
        try:
            return open_session(serialise(model), integers=integers)
        except REFUSALS:
            continue
    return None
