# SPDX-License-Identifier: Apache-2.0
"""A session of onnxruntime that computes some tensors of an ONNX model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import onnx

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.refuse import reason_of
from arm_ext.frontends.onnx.reference import REFUSALS, open_session
from arm_ext.frontends.onnx.weights import serialise
from arm_ext.quantization.layers import Matching, with_outputs
from arm_ext.quantization.steps import Feed


class TensorSession:
    """An onnxruntime session that returns some of a model's tensors."""

    def __init__(
        self, model: onnx.ModelProto, name: str, tensors: Sequence[str], *, integers: bool = False
    ) -> None:
        inputs = {value.name for value in model.graph.input}
        self._tensors = [tensor for tensor in dict.fromkeys(tensors) if tensor not in inputs]
        self._name = name
        with self._refusing():
            self._session = open_session(serialise(with_outputs(model, self._tensors)), integers=integers)
        self._inputs = {value.name for value in self._session.get_inputs()}

    @classmethod
    def or_none(cls, model: onnx.ModelProto, name: str, tensors: Sequence[str]) -> "TensorSession | None":
        """Return a session that computes in integers; None if onnxruntime cannot."""
        try:
            return cls(model, name, tensors, integers=True)
        except ModelError:
            return None

    def __call__(self, feed: Feed) -> Feed:
        """Compute the session's tensors; entries of the feed that are not inputs of the model are ignored."""
        if not self._tensors:  # for an empty list, onnxruntime would return all outputs
            return {}
        with self._refusing():
            found = self._session.run(
                self._tensors, {name: value for name, value in feed.items() if name in self._inputs}
            )
        return dict(zip(self._tensors, map(np.asarray, found), strict=True))

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except REFUSALS as err:
            raise ModelError(f"{self._name}: onnxruntime cannot run it: {reason_of(err, line=0)}") from err


def leave_unlike_out(matching: Matching, feed: Feed, source: str, quantized: str) -> Feed:
    """Leave out layers whose tensor is not float, or differs in shape from the source's tensor.

    Args:
        matching: The layers, which this changes.
        feed: One sample, to find out each tensor's shape and dtype.
        source: Name of the float model, for messages.
        quantized: Name of the QDQ model.

    Returns:
        The values of all layers, those that were left out among them.
    """
    names = [layer.source for layer in matching.layers]
    exact = feed | TensorSession(matching.source.proto, source, names)(feed)
    values = feed | TensorSession(
        matching.quantized.proto, quantized, [each.value for each in matching.layers]
    )(feed)
    matching.without(
        layer.source
        for layer in matching.layers
        for one, other in [(exact[layer.source], values[layer.value])]
        if one.shape != other.shape or {one.dtype, other.dtype} != {np.dtype(np.float32)}
    )
    return values
