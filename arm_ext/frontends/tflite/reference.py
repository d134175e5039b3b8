# SPDX-License-Identifier: Apache-2.0
"""LiteRT as the foreign reference for a TFLite model. It is not needed to compile one."""

import importlib.metadata
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

_LITERT = "ai-edge-litert"


def reference(model: bytes, inputs: Sequence[npt.NDArray[Any]]) -> tuple[list[npt.NDArray[Any]], str]:
    """Run a model by LiteRT's default kernels.

    Returns:
        The outputs, none if LiteRT is not installed or cannot run the model; and its name and version.
    """
    try:
        name = f"LiteRT {importlib.metadata.version(_LITERT)}"
    except importlib.metadata.PackageNotFoundError:
        return [], f"LiteRT is not installed; pip install {_LITERT}"
    try:
        return run_litert(model, inputs), name
    except (RuntimeError, ValueError) as err:
        return [], f"{name} cannot run it: {str(err).strip().splitlines()[0]}"


def run_litert(model: bytes, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Run a model on one thread by the default kernels: XNNPACK's, where it has one.

    Args:
        model: A TFLite file's bytes.
        inputs: In the model's order.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
