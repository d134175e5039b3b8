# SPDX-License-Identifier: Apache-2.0
"""The first runs of a model that keeps tensors from one to the next, by us and by LiteRT."""

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.pipeline.selftest import make_steps
from schedules.numerics.qdq import NUMERICS
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

Arrays = list[np.ndarray]


def runs_of_both(folder: Path, m: TfliteBuilder, inputs: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return our outputs and LiteRT's, run by run, which differ from one to the next by what the model keeps."""
    path = folder / "model.tflite"
    path.write_bytes(m.build())
    imported = import_tflite(path)
    ours = make_steps(imported, [*inputs, *(state.initial for state in imported.states)], (), NUMERICS)
    theirs = _runs(path, inputs, len(ours))
    assert all((first != last).any() for first, last in zip(theirs[0], theirs[-1], strict=True))
    return [pair for a, b in zip(ours, theirs, strict=True) for pair in zip(a, b, strict=True)]


def _runs(path: Path, inputs: Arrays, count: int) -> list[Arrays]:
    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    found = []
    for _ in range(count):
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        found.append([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    return found
