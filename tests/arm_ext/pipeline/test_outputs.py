# SPDX-License-Identifier: Apache-2.0
"""Tensors that a model returns are the caller's own, for as long as the caller has them or a view of them."""

import gc

import numpy as np
import onnx.parser
import pytest
import tvm
from tvm import relax

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import resolve

TEXT = '<ir_version: 8, opset_import: ["": 17]> g (float[2,6] x) => ({}) {{{}}}'


def machine(outputs: str, nodes: str) -> relax.VirtualMachine:
    profile = resolve("host")
    start = PhaseResult(import_onnx(onnx.parser.parse_model(TEXT.format(outputs, nodes))).mod)
    return make_program(last(run_phases(start, PhaseOptions(profile))).mod, profile, runs_here=True).machine()


def input_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((2, 6), np.float32)


@pytest.mark.parametrize("held", ["tensor", "view", "nothing"])
def test_later_runs_leave_an_output_as_it_is(held: str) -> None:
    vm = machine("float[2,6] y, float[2,6] z", "y = Exp(x) z = Neg(x)")
    kept: list[tuple[np.ndarray, object]] = []
    for seed in range(20):
        x = input_of(seed)
        for output, wanted in zip(vm["main"](tvm.runtime.tensor(x)), (np.exp(x), -x), strict=True):
            np.testing.assert_allclose(output.numpy(), wanted, rtol=1e-6)
            if held != "nothing":
                kept.append((wanted, output if held == "tensor" else np.from_dlpack(output)))
    for wanted, output in kept:
        np.testing.assert_allclose(np.from_dlpack(output) if held == "tensor" else output, wanted, rtol=1e-6)


def test_a_view_outlives_the_machine_and_its_library() -> None:
    vm, x = machine("float[2,6] y", "y = Exp(x)"), input_of(0)
    view = np.from_dlpack(vm["main"](tvm.runtime.tensor(x)))
    del vm
    gc.collect()
    np.testing.assert_allclose(view, np.exp(x), rtol=1e-6)
    del view
    gc.collect()


@pytest.mark.parametrize(
    ("output", "nodes", "wanted"),
    [
        ("float y", "y = ReduceSum<keepdims = 0>(x)", lambda x: x.sum()),
        ("bool[2,6] y", "z = Neg(x) y = Less(z, x)", lambda x: -x < x),
        ("int64[2] y", "y = ArgMax<axis = 1, keepdims = 0>(x)", lambda x: x.argmax(1)),
        ("float16[2,6] y", "y = Cast<to = 10>(x)", lambda x: x.astype(np.float16)),
        ("float[1,2,6,1,1] y", "z = Exp(x) s = Constant<value_ints = [1,2,6,1,1]>() y = Reshape(z, s)", None),
    ],
)
def test_outputs_are_tensors_as_the_runtime_makes_them(output: str, nodes: str, wanted) -> None:
    x = input_of(1)
    found = machine(output, nodes)["main"](tvm.runtime.tensor(x))
    expected = np.exp(x).reshape(1, 2, 6, 1, 1) if wanted is None else np.asarray(wanted(x))
    assert (found.shape, str(found.dtype)) == (expected.shape, str(expected.dtype))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    view = np.from_dlpack(found)
    assert view.flags.c_contiguous
    assert view.ctypes.data % 64 == 0
