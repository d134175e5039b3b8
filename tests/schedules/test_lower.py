# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

import schedules
from tests.schedules.composites import composite, constant, tensor
from tests.schedules.programs import host, run_on_host

CORE = schedules.CORES["neoverse-n2"]
X, Y = tensor((2, 7, 9)), tensor((2, 7, 5))
W, B = constant((9, 5), 1), constant((5,), 2)


def _linear() -> relax.Function:
    """The residual is parameter 0 and the matmul's operand is parameter 1."""
    return composite(
        [Y, X],
        lambda _, y, x: op.matmul(x, W),
        lambda v, *_: op.add(v, B),
        lambda v, y, _: op.add(y, v),
        lambda v, *_: op.nn.relu(v),
    )


def test_arguments_are_the_parameters_the_constants_the_output():
    lowered = schedules.lower(_linear(), host(), CORE)
    assert isinstance(lowered, schedules.Lowered)
    rng = np.random.default_rng(3)
    y, x = rng.normal(size=(2, 7, 5)).astype(np.float32), rng.normal(size=(2, 7, 9)).astype(np.float32)
    actual = run_on_host(lowered.func, [y, x, *lowered.constants], (2, 7, 5), "float32")
    expected = np.maximum(x @ W.value.numpy() + B.value.numpy() + y, 0)
    # Sums of nine products of values near 1; both sides round at 2**-24.
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_kernel_is_described_by_its_name_and_built_alike_each_time():
    one, other = schedules.lower(_linear(), host(), CORE), schedules.lower(_linear(), host(), CORE)
    assert isinstance(one, schedules.Lowered)
    assert isinstance(other, schedules.Lowered)
    assert one.func.attrs["global_symbol"] == "arm_linear_f32_bias_residual_relu"
    tvm.ir.assert_structural_equal(one.func, other.func)
    assert one.choice == other.choice


def test_look_up_reaches_the_kernel():
    known = schedules.kernels.matmul_f32.Params(2, 4, 2, parallel=False)
    lowered = schedules.lower(_linear(), host(), CORE, choose=lambda *_: known)
    assert isinstance(lowered, schedules.Lowered)
    assert lowered.choice.params == known


def test_composite_that_no_kernel_takes():
    batched = composite([tensor((3, 7, 9))], lambda _, x: op.matmul(x, constant((3, 9, 5))))
    answer = schedules.lower(batched, host(), CORE)
    assert isinstance(answer, schedules.Rejected)
    assert [(r.kernel, r.limit, r.actual) for r in answer.rejections] == [
        ("matmul_f32", "2 dimensions", "3 dimensions")
    ]


def test_no_kernel_takes_attention_yet():
    function = composite(
        [tensor((2, 9, 8)), tensor((2, 8, 7)), tensor((2, 7, 5))],
        lambda _, q, k, v: op.matmul(q, k),
        lambda s, *_: op.nn.softmax(s, axis=-1),
        lambda p, _q, _k, v: op.matmul(p, v),
        name="arm.attention",
    )
    answer = schedules.lower(function, host(), CORE)
    assert isinstance(answer, schedules.Rejected)
    assert {(r.limit, r.actual) for r in answer.rejections} == {("arm.linear", "arm.attention")}


def test_symbolic_shape():
    dynamic = composite([tensor((tvm.tirx.Var("n", "int64"), 9))], lambda _, x: op.matmul(x, W))
    answer = schedules.lower(dynamic, host(), CORE)
    assert isinstance(answer, schedules.Rejected)
    assert answer.rejections[0].kernel == "any"


def test_composite_outside_the_vocabulary():
    with pytest.raises(ValueError, match=r"'arm.unknown' is not in the vocabulary: arm.linear"):
        schedules.lower(composite([X], lambda _, x: op.exp(x), name="arm.unknown"), host(), CORE)
