# SPDX-License-Identifier: Apache-2.0
"""States of an ONNX model: inputs that also have an initialiser, which is the initial value."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
from onnx import numpy_helper

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.common.state import with_states
from arm_ext.frontends.onnx.importer import import_onnx, read_onnx


def import_onnx_states(
    model: str | Path | onnx.ModelProto, shapes: Shapes | None, states: Mapping[str, str]
) -> ImportedModel:
    """Import an ONNX model with those of the given states that have an initialiser.

    Args:
        model: As for `import_onnx`.
        shapes: As for `import_onnx`.
        states: Name of an input → the output that is its next value.

    Raises:
        UsageError, ModelError: As `import_onnx` and `with_states`.
    """
    if not states:
        return import_onnx(model, shapes)
    proto, name, digest = read_onnx(model)
    initial = take_defaults(proto, states)
    if not initial:
        return import_onnx(model, shapes)
    imported = replace(import_onnx(proto, shapes), name=name, sha256=digest)
    return with_states(imported, {name: states[name] for name in initial}, initial)


def take_defaults(proto: onnx.ModelProto, states: Mapping[str, str]) -> dict[str, npt.NDArray[Any]]:
    """Remove the initializers of inputs that are states, and return them by name."""
    named = {value.name for value in proto.graph.input} & set(states)
    defaults = [tensor for tensor in proto.graph.initializer if tensor.name in named]
    initial = {tensor.name: numpy_helper.to_array(tensor) for tensor in defaults}
    for tensor in defaults:
        proto.graph.initializer.remove(tensor)
    return initial
