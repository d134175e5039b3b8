# SPDX-License-Identifier: Apache-2.0
"""Runs compiled models with guard pages around all tensors; a process of its own, which an access elsewhere ends.

It has guard.c in LD_PRELOAD, and takes pickled (library, [[input]]) on stdin: for each list of inputs it answers a
`Ran`. Only the process that started it writes there.
"""

import ctypes
import pickle
import sys
from dataclasses import dataclass, field

import numpy as np

PLACES = ((1, 0x5A), (1, 0xA5), (0, 0x5A))
"""Whether a tensor ends where its pages end, and what is beside it: a result that depends on that read it."""


@dataclass
class Ran:
    """What came of one list of inputs.

    Attributes:
        error: Of the model; "" for none.
        outputs: Where there is no error.
        faults: What was wrong with the memory.
    """

    error: str = ""
    outputs: list[np.ndarray] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def main() -> None:
    """Answer until stdin ends."""
    import tvm
    from tvm import relax

    guard = ctypes.CDLL(None)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    device = tvm.cpu()

    def once(module: tvm.runtime.Module, inputs: list[np.ndarray], end: int, poison: int) -> Ran:
        if guard.guard_begin(end, poison):
            raise MemoryError
        try:
            machine = relax.VirtualMachine(module, device, memory_cfg="naive")
            result = machine["main"](*(tvm.runtime.tensor(value, device) for value in inputs))
            tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
            ran = Ran(outputs=[tensor.numpy() for tensor in tensors])
            del tensors, result, machine
        except (IndexError, RuntimeError, ValueError) as err:
            ran = Ran(error=str(err).strip().splitlines()[-1])
            del err
        if overwritten := guard.guard_end():
            ran.faults.append(f"{overwritten} bytes beside tensors were overwritten")
        return ran

    while True:
        try:
            library, batches = pickle.load(source)
        except EOFError:
            return
        module = tvm.runtime.load_module(library)
        for inputs in batches:
            ran = _joined([once(module, inputs, *place) for place in PLACES])
            sink.write(pickle.dumps((ran.error, ran.outputs, ran.faults)))
            sink.flush()


def _joined(runs: list[Ran]) -> Ran:
    first = runs[0]
    for other in runs[1:]:
        first.faults += other.faults
        if other.error != first.error:
            first.faults.append(f"'{first.error}' and '{other.error}', by what is beside tensors")
        elif any(a.tobytes() != b.tobytes() for a, b in zip(first.outputs, other.outputs, strict=True)):
            first.faults.append("an output depends on what is beside tensors")
    return first


if __name__ == "__main__":
    main()
