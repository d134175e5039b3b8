# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from schedules.composites.vocabulary import MATMUL_S8
from schedules.composites.workload import Composite, Magnitude
from schedules.kernels.gemm import gemm_f32
from schedules.lowering.lower import Lowered, lower
from schedules.lowering.parse import parse
from schedules.numerics.qdq.matmul import matmul_routine
from schedules.numerics.qdq.requantize import requantize_routine
from schedules.select import Known, Rejected
from tests.schedules.composite_functions import composite, constant, tensor
from tests.schedules.numerics.routines import Per
from tests.schedules.programs import NEON_CORE, host, run_on_host

CORE = NEON_CORE
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
    lowered = lower(_linear(), host(), CORE)
    assert isinstance(lowered, Lowered)
    rng = np.random.default_rng(3)
    y, x = rng.normal(size=(2, 7, 5)).astype(np.float32), rng.normal(size=(2, 7, 9)).astype(np.float32)
    actual = run_on_host(lowered.func, [y, x, *lowered.constants], (2, 7, 5), "float32")
    expected = np.maximum(x @ W.value.numpy() + B.value.numpy() + y, 0)
    # Sums of nine products of values near 1; both sides round at 2**-24.
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_kernel_is_described_by_its_name_and_built_alike_each_time():
    one, other = lower(_linear(), host(), CORE), lower(_linear(), host(), CORE)
    assert isinstance(one, Lowered)
    assert isinstance(other, Lowered)
    assert one.func.attrs["global_symbol"] == "arm_linear_f32_bias_residual_relu"
    tvm.ir.assert_structural_equal(one.func, other.func)
    assert one.choice == other.choice


def test_look_up_reaches_the_kernel():
    known = gemm_f32.Params(2, 4, 2, parallel=False)
    lowered = lower(_linear(), host(), CORE, choose=lambda *_: Known(known, ""))
    assert isinstance(lowered, Lowered)
    assert lowered.choice.params == known


def test_composite_that_no_kernel_takes():
    batched = composite([tensor((3, 7, 9))], lambda _, x: op.matmul(x, constant((3, 9, 5))))
    answer = lower(batched, host(), CORE)
    assert isinstance(answer, Rejected)
    assert ("gemm_f32", "2 dimensions", "3 dimensions") in {
        (r.asked, r.limit, r.actual) for r in answer.rejections
    }


def test_attention_is_one_kernel():
    function = composite(
        [tensor((2, 9, 8)), tensor((2, 8, 7)), tensor((2, 7, 5))],
        lambda _, q, k, v: op.matmul(q, k),
        lambda s, *_: op.nn.softmax(s, axis=-1),
        lambda p, _q, _k, v: op.matmul(p, v),
        name="arm.attention",
    )
    lowered = lower(function, host(), CORE)
    assert isinstance(lowered, Lowered)
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 9, 8), (2, 8, 7), (2, 7, 5)))
    actual = run_on_host(lowered.func, [q, k, v, *lowered.constants], (2, 9, 5), "float32")
    weights = np.exp(q @ k)
    # Weights of scores below 16, off by 2**-24 of each of their eight products.
    np.testing.assert_allclose(actual, weights / weights.sum(-1, keepdims=True) @ v, rtol=0, atol=1e-4)


def _product(zero_points: tuple[int, int]) -> tuple[relax.Function, dict[str, tvm.tirx.PrimFunc]]:
    """A composite of a product of run time, and the routines that it calls."""
    a, b = (Per(0.5, zero, "int8") for zero in zero_points)
    builder = relax.BlockBuilder()
    product = matmul_routine(((2, 7, 8), (2, 8, 9)), a, b, "int32")
    m = np.full((1, 1, 1), 0.01, np.float32)
    requantize = requantize_routine((2, 7, 9), "int32", m, Per(1.0, 3, "int8"), (None, None))
    symbols = [
        builder.add_func(r.func, name) for r, name in ((product, "product"), (requantize, "requantize"))
    ]
    params = [relax.Var("a", tensor((2, 7, 8), "int8")), relax.Var("b", tensor((2, 8, 9), "int8"))]
    with builder.function("composite", params):
        with builder.dataflow():
            acc = builder.emit(relax.call_tir(symbols[0], params, tensor((2, 7, 9), "int32")))
            out = relax.call_tir(symbols[1], [acc, relax.const(m)], tensor((2, 7, 9), "int8"))
            output = builder.emit_output(out)
        builder.emit_func_output(output)
    function = builder.get()["composite"].with_attr("Composite", "arm.matmul_s8")
    return function, {"product": product.func, "requantize": requantize.func}


def test_a_routine_is_an_anchor_and_its_parameters_are_the_workload():
    function, routines = _product((-128, 7))
    parsed = parse(function, MATMUL_S8, routines)
    assert isinstance(parsed, Composite)
    assert parsed.workload.attributes == (("a_zero", "-128"), ("b_zero", "7"))
    # 8 * 255 * 135 is below 2**19, and a hundredth of it below 2**12.
    assert parsed.workload.magnitude == Magnitude(19, 12)
    lowered = lower(function, host(), CORE, routines=routines)
    assert isinstance(lowered, Lowered)
    assert lowered.choice.kernel == "matmul_s8"


@pytest.mark.parametrize(
    ("residual_first", "groups", "kernel"), [(True, 1, "gemm_f32"), (False, 6, "depthwise_f32")]
)
def test_convolution_with_activation_and_residual(residual_first: bool, groups: int, kernel: str):
    shape = (1, 5, 7, 6)
    w, b = constant((6, 3, 3, 6 // groups), 3), constant((1, 1, 1, 6), 4)

    def add(v, _x, y):
        return op.add(y, v)

    def silu(v, *_):
        return op.nn.silu(v)

    function = composite(
        [tensor(shape), tensor(shape)],
        lambda _, x, y: op.nn.conv2d(
            x, w, padding=1, groups=groups, data_layout="NHWC", kernel_layout="OHWI"
        ),
        lambda v, *_: op.add(v, b),
        *((add, silu) if residual_first else (silu, add)),
        name="arm.conv2d",
    )
    lowered = lower(function, host(), CORE)
    assert isinstance(lowered, Lowered)
    assert lowered.choice.kernel == kernel
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    actual = run_on_host(lowered.func, [x, y, *lowered.constants], shape, "float32")
    padded, weights = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), w.value.numpy()
    product = sum(
        np.einsum(
            "nhwgi,goi->nhwgo", part.reshape(1, 5, 7, groups, -1), taps.reshape(groups, 6 // groups, -1)
        )
        for (i, j) in np.ndindex(3, 3)
        for part, taps in [(padded[:, i : i + 5, j : j + 7], weights[:, i, j])]
    ).reshape(shape)
    value = product + b.value.numpy()
    value = value + y if residual_first else value
    value = value / (1 + np.exp(-value))
    # Sums of up to 54 products of values near 1; both sides round at 2**-24.
    np.testing.assert_allclose(actual, value if residual_first else value + y, atol=3e-5)


def test_symbolic_shape():
    dynamic = composite([tensor((tvm.tirx.Var("n", "int64"), 9))], lambda _, x: op.matmul(x, W))
    answer = lower(dynamic, host(), CORE)
    assert isinstance(answer, Rejected)
    assert answer.rejections[0].asked == "any"


def test_composite_outside_the_vocabulary():
    with pytest.raises(ValueError, match=r"'arm.unknown' is not in the vocabulary: .*arm.linear"):
        lower(composite([X], lambda _, x: op.exp(x), name="arm.unknown"), host(), CORE)


def test_operands_that_all_are_constants_are_no_kernels():
    product = composite([], lambda _: op.matmul(constant((1, 9), 3), W))
    rejected = lower(product, host(), CORE)
    assert isinstance(rejected, Rejected)
    assert [each.reason for each in rejected.rejections] == ["all operands are constants"]
