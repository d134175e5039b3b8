# SPDX-License-Identifier: Apache-2.0
"""Running of a reference runtime in a separate process: an integer division by 0 on x86 ends the process."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

Outputs = tuple[list[npt.NDArray[Any]], str]
Reference = Callable[[Sequence[npt.NDArray[Any]]], Outputs]


def run_apart(reference: Reference, runtime: str, inputs: Sequence[npt.NDArray[Any]]) -> Outputs:
    """Return a reference's outputs; if it fails, no outputs and the reason.

    Args:
        reference: The reference; a function that can be pickled.
        runtime: Name of the runtime, for the reason.
        inputs: Inputs in the model's order.
    """
    # Not multiprocessing: its child begins with the caller's script.
    command = [sys.executable, "-P", "-m", __name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, input=pickle.dumps((reference, inputs)), capture_output=True, check=False, env=environment
    )
    if done.returncode == -signal.SIGFPE:
        return [], f"{runtime} does not survive it: it divides an integer by 0, or the least one by -1"
    if done.returncode:
        last = (
            done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        )[-1]
        return [], f"{runtime} cannot run it: {last}"
    outputs: Outputs = pickle.loads(done.stdout)
    return outputs


def _serve() -> None:
    reference, inputs = pickle.load(sys.stdin.buffer)
    # What a library prints must not stand among the outputs.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with answer:
        pickle.dump(reference(inputs), answer)


if __name__ == "__main__":
    _serve()
