# SPDX-License-Identifier: Apache-2.0
"""Runs compiled models with guard pages around all tensors; a process of its own, which an access elsewhere ends.

It has guard.c in LD_PRELOAD, and takes pickled (library, function, [[[input]]]) on stdin: the function's inputs for
each call of several in one virtual machine, for each of several machines. For each machine it answers a `Ran`. Only
the process that started it writes there.
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
    """What came of the calls in one machine.

    Attributes:
        answers: Of each call, the model's error, "" for none, and the outputs where there is none.
        faults: What was wrong with the memory.
    """

    answers: list[tuple[str, list[np.ndarray]]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def main() -> None:
    """Answer until stdin ends."""
    sys.modules["torch"] = None  # type: ignore[assignment] # TVM would import it, which takes seconds
    import tvm
    from tvm import relax

    guard = ctypes.CDLL(None)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    device = tvm.cpu()

    def call(
        machine: relax.VirtualMachine, name: str, inputs: list[np.ndarray]
    ) -> tuple[str, list[np.ndarray]]:
        try:
            result = machine[name](*(tvm.runtime.tensor(value, device) for value in inputs))
            tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
            return "", [tensor.numpy() for tensor in tensors]
        except (IndexError, RuntimeError, ValueError) as err:
            return str(err).strip().splitlines()[-1], []

    def once(
        module: tvm.runtime.Module, name: str, calls: list[list[np.ndarray]], end: int, poison: int
    ) -> Ran:
        if guard.guard_begin(end, poison):
            raise MemoryError
        machine = relax.VirtualMachine(module, device, memory_cfg="naive")
        ran = Ran([call(machine, name, inputs) for inputs in calls])
        del machine
        if overwritten := guard.guard_end():
            ran.faults.append(f"{overwritten} bytes beside tensors were overwritten")
        return ran

    while True:
        try:
            library, name, machines = pickle.load(source)
        except EOFError:
            return
        module = tvm.runtime.load_module(library)
        for calls in machines:
            ran = _joined([once(module, name, calls, *place) for place in PLACES])
            sink.write(pickle.dumps((ran.answers, ran.faults)))
            sink.flush()


def _joined(runs: list[Ran]) -> Ran:
    first = runs[0]
    for other in runs[1:]:
        first.faults += other.faults
        for (error, outputs), (other_error, others) in zip(first.answers, other.answers, strict=True):
            if other_error != error:
                first.faults.append(f"'{error}' and '{other_error}', by what is beside tensors")
            elif any(a.tobytes() != b.tobytes() for a, b in zip(outputs, others, strict=True)):
                first.faults.append("an output depends on what is beside tensors")
    return first


if __name__ == "__main__":
    main()
