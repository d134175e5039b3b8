# SPDX-License-Identifier: Apache-2.0
"""Script for the emulated arm64 Python: `guest.py PEER MODEL FOLDER PART THREADS` runs a part of a peer's work.

PART is "inference", one warm inference, or "start", all from the opening of the model to its first outputs, with the
peer's libraries loaded before. FOLDER holds inputs.npz (arrays "0", "1", ... in the model's order) and gets outputs.npz
likewise, and the file "maps", the process's memory map, by which the counts are attributed.
"""

import gc
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# The emulator's plugin counts from close(BEGIN) to close(END); no file has these descriptors.
BEGIN, END = 0x5A5A01, 0x5A5A02
# Number of warm-up inferences, as on the virtual board: the first inferences allocate memory.
WARMUP = 4

Prepared = tuple[Callable[[], object], Callable[[], list[npt.NDArray[Any]]]]


def onnxruntime(model: str, inputs: list[npt.NDArray[Any]], threads: int) -> Prepared:
    """Return two functions: one runs an ONNX model on bound inputs, the other returns its outputs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    bound = session.io_binding()
    for declared, value in zip(session.get_inputs(), inputs, strict=True):
        bound.bind_cpu_input(declared.name, value)
    for declared in session.get_outputs():
        bound.bind_output(declared.name)
    return lambda: session.run_with_iobinding(bound), bound.copy_outputs_to_cpu


def litert(model: str, inputs: list[npt.NDArray[Any]], threads: int) -> Prepared:
    """Return two functions: one runs a TFLite model by LiteRT's default kernels, the other returns its outputs."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=threads)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)

    def outputs() -> list[npt.NDArray[Any]]:
        return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]

    return interpreter.invoke, outputs


_PEERS = {"onnxruntime": (onnxruntime, "onnxruntime"), "litert": (litert, "ai_edge_litert.interpreter")}
"""Name of a peer → the function that prepares an inference, and the module that it imports."""


def _mark(number: int) -> None:
    try:  # noqa: SIM105 - contextlib.suppress runs 4,600 instructions more, and these are counted
        os.close(number)
    except OSError:
        pass


def _array(value: Any) -> Any:
    """Return an output as an array.

    A list of maps from classes to scores becomes one row per map, and strings stay strings.
    """
    if isinstance(value, list):
        return np.array(
            [list(each.values()) if isinstance(each, dict) else each for each in value], np.float32
        )
    return value.astype(str) if value.dtype == object else value


def _main(peer: str, model: str, folder: Path, part: str, threads: int) -> None:
    with np.load(folder / "inputs.npz") as file:
        inputs = [file[str(k)] for k in range(len(file))]
    prepare, module = _PEERS[peer]
    importlib.import_module(module)
    gc.disable()
    if part == "start":
        _mark(BEGIN)
    run, outputs = prepare(model, inputs, threads)
    if part == "inference":
        for _ in range(WARMUP):
            run()
        # What runs between the first two marks fills the plugin's caches, if it has any.
        _mark(BEGIN)
        run()
        _mark(END)
        _mark(BEGIN)
    run()
    _mark(END)
    held: dict[str, Any] = {str(k): _array(value) for k, value in enumerate(outputs())}
    np.savez(folder / "outputs.npz", **held)
    (folder / "maps").write_text(Path("/proc/self/maps").read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
