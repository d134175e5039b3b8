# SPDX-License-Identifier: Apache-2.0
"""Libraries of models that decide at run time, against onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from arm_ext.clibrary.memory import Ends, arrange
from arm_ext.clibrary.program import Branch, Copy, KernelStep, Loop, Program, TensorPlace
from tests.arm_ext import state_models
from tests.arm_ext.clibrary.programs import Library, cc, cross, python_module, run
from tests.arm_ext.frontends.onnx import control_models

Inputs = Sequence[Any]
STEP = np.linspace(-1, 1, 4, dtype=np.float32)
BOTH_EXITS = [(frame,) for frame in control_models.early_exit_inputs()]
CASES: dict[str, tuple[onnx.ModelProto, Sequence[Inputs]]] = {
    "early_exit": (control_models.early_exit(), BOTH_EXITS),
    "quantised_exit": (
        control_models.quantised_exit(),
        [(np.full((1, 4, 8, 8), x, np.float32),) for x in (0, 9)],
    ),
    "doubling": (
        control_models.doubling(),
        [(STEP + 1, np.int64(rounds), np.float32(limit)) for rounds, limit in ((0, 9), (3, 1e9), (99, 500))],
    ),
    "alternating": (
        control_models.alternating(),
        [
            (STEP, np.array([rounds]), np.float32(99), np.bool_(begins))
            for rounds in (0, 1, 7)
            for begins in (1, 0)
        ],
    ),
    "counting": (control_models.counting(1100), [(STEP,)]),
    "scanning": (
        control_models.scanning(5),
        [(STEP[:2], *(np.arange(10, dtype=np.float32).reshape(s) for s in ((5, 2), (2, 5))))],
    ),
}


# Of the two with an exit, and of the two loops that a value ends, one runs by default.
LONG = ("quantised_exit", "doubling")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in CASES]
)
def test_both_sides_and_any_number_of_rounds(name: str, tmp_path: Path) -> None:
    model, cases = CASES[name]
    library = Library.of(model, tmp_path / name, "host", name=name)
    assert "all outputs agree" in run(cc(library.selftest, tmp_path / "selftest"))
    compiled = python_module(library, tmp_path)["Model"]()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    for inputs in cases:
        arrays = [np.asarray(each) for each in inputs]
        expected = session.run(None, dict(zip(names, arrays, strict=True)))
        for found, wanted in zip(compiled.run(*arrays), expected, strict=True):
            np.testing.assert_allclose(np.asarray(found).reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)


def test_a_loop_with_a_branch_runs_on_aarch64(tmp_path: Path) -> None:
    library = Library.of(control_models.alternating(), tmp_path / "loop", "arm", name="loop", threads=2)
    assert "all outputs agree" in run(cross(library.selftest, tmp_path / "selftest"))
    info = library.package.manifest.library
    assert info is not None
    assert info.stack_bytes


def test_a_branch_is_part_of_a_step(tmp_path: Path) -> None:
    library = Library.of(state_models.held(), tmp_path / "held", "host", name="held", state={"last": "next"})
    assert "all outputs agree" in run(cc(library.selftest, tmp_path / "selftest"))


def buffer(index: int) -> TensorPlace:
    return TensorPlace("buffer", index=index)


def test_what_a_loop_takes_from_outside_is_alive_in_all_rounds() -> None:
    """The value from before the loop is read first in a round, and written over by nothing later in it."""
    steps = (
        KernelStep("before", (TensorPlace("input"), buffer(0), buffer(1)), ()),
        Loop(
            buffer(1),
            (
                KernelStep("first", (buffer(0), TensorPlace("input"), buffer(2)), ()),
                KernelStep("second", (buffer(2), buffer(3)), ()),
                KernelStep("third", (buffer(3), buffer(1), TensorPlace("output")), ()),
            ),
        ),
    )
    layout = arrange(Program(steps, (256,) * 4, b"", {}), Ends((256,), (256,)))
    at = [address.offset for address in (*layout.buffers, *layout.inputs, *layout.outputs) if address]
    assert len(set(at)) == 6


def test_sides_of_a_branch_share_memory_with_what_neither_needs() -> None:
    steps = (
        KernelStep("before", (TensorPlace("input"), buffer(0)), ()),
        Branch(
            TensorPlace("input", index=1),
            (KernelStep("then", (buffer(0), buffer(1)), ()), Copy(buffer(1), TensorPlace("output"), 256)),
            (Copy(buffer(0), TensorPlace("output"), 256),),
        ),
    )
    layout = arrange(Program(steps, (256,) * 2, b"", {}), Ends((256, 1), (256,)))
    assert layout.buffers[0] != layout.buffers[1]
    assert layout.bytes == (512,)
