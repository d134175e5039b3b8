# SPDX-License-Identifier: Apache-2.0
"""Tensors of a caller are checked before any kernel runs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx.parser
import pytest
import torch
import tvm
from tvm import relax

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import resolve

TEXT = (
    '<ir_version: 8, opset_import: ["": 17]> g (float[2,6] x, float[6,2] z) => (float[2,6] y) '
    "{e = Exp(x) f = MatMul(e, z) y = MatMul(f, x)}"
)


@pytest.fixture(scope="module")
def machine() -> relax.VirtualMachine:
    profile = resolve("host")
    start = PhaseResult(import_onnx(onnx.parser.parse_model(TEXT)).mod)
    return make_program(last(run_phases(start, PhaseOptions(profile))).mod, profile, runs_here=True).machine()


def test_inputs_may_begin_inside_of_their_memory(machine: relax.VirtualMachine):
    rng = np.random.default_rng(0)
    many, z = rng.random((6, 6), np.float32), rng.random((6, 2), np.float32)
    for begin in (0, 2):
        x = many[begin : begin + 2]
        whole = tvm.runtime.tensor(many)
        inside = whole._create_view((2, 6), "float32", relative_byte_offset=begin * x.strides[0])
        found = machine["main"](inside, tvm.runtime.tensor(z)).numpy()
        np.testing.assert_allclose(found, np.exp(x) @ z @ x, rtol=1e-5)


def test_threads_share_a_machine(machine: relax.VirtualMachine):
    """Several threads can share a machine whose arena is on each one's stack."""
    rng = np.random.default_rng(1)
    inputs = [
        [tvm.runtime.tensor(rng.random(shape, np.float32)) for shape in ((2, 6), (6, 2))] for _ in range(4)
    ]
    wanted = [machine["main"](*each).numpy() for each in inputs]

    def run(number: int) -> bool:
        found = (machine["main"](*inputs[number]).numpy() for _ in range(500))
        return all(np.array_equal(each, wanted[number]) for each in found)

    with ThreadPoolExecutor(len(inputs)) as pool:
        assert all(pool.map(run, range(len(inputs))))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (torch.zeros(4, 12)[::2, ::2], "compact"),
        (torch.zeros(6, 2).T, "compact"),
        (torch.zeros(2, 6, dtype=torch.float64), "dtype"),
        (torch.zeros(2, 3), "shape"),
        (torch.zeros(6), "ndim"),
    ],
)
def test_what_is_no_such_tensor_is_refused(machine: relax.VirtualMachine, wrong: torch.Tensor, said: str):
    z = tvm.runtime.tensor(np.zeros((6, 2), np.float32))
    with pytest.raises((ValueError, TypeError), match=f"x.*{said}"):
        machine["main"](wrong, z)
