# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import ir, relax, tirx
from tvm.relax import op

from schedules.composites.vocabulary import ATTENTION, CONV2D_S8, LINEAR
from schedules.composites.workload import Composite, Magnitude, Operand, OperandPadding, Step
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gemm_s8_sdot
from schedules.lowering.parse import parse
from schedules.numerics.qdq import NUMERICS
from schedules.numerics.qdq.binary import binary_routine
from tests.schedules.composite_functions import composite, constant, tensor
from tests.schedules.numerics.routines import Per

X, Y = tensor((2, 7, 9)), tensor((2, 7, 5))
W, B = constant((9, 5), 1), constant((5,), 2)


def _parse(*args, **kwargs) -> Composite:
    parsed = parse(composite(*args, **kwargs), LINEAR)
    assert isinstance(parsed, Composite)
    return parsed


def test_anchor_alone():
    parsed = _parse([X], lambda _, x: op.matmul(x, W))
    workload = parsed.workload
    assert workload.operands == (
        Operand((2, 7, 9), "float32", "input", 0),
        Operand((9, 5), "float32", "constant", 0),
    )
    assert (workload.epilogue, workload.output_shape, workload.output_dtype) == ((), (2, 7, 5), "float32")
    assert workload.attributes == (("out_dtype", "None"),)
    np.testing.assert_array_equal(parsed.constants[0], W.value.numpy())


@pytest.mark.parametrize("swapped", [False, True])
def test_bias_and_residual_in_either_order_of_operands(swapped: bool):
    def add(a, b):
        return op.add(b, a) if swapped else op.add(a, b)

    # The residual comes first among the parameters, as it does where it was computed first.
    parsed = _parse(
        [Y, X], lambda _, y, x: op.matmul(x, W), lambda v, *_: add(v, B), lambda v, y, _: add(v, y)
    )
    assert parsed.workload.epilogue == (
        Step("bias", Operand((5,), "float32", "constant", 1)),
        Step("residual", Operand((2, 7, 5), "float32", "input", 0)),
    )
    assert parsed.workload.operands[0].index == 1
    assert [o.shape for o in parsed.workload.inputs] == [(2, 7, 5), (2, 7, 9)]
    np.testing.assert_array_equal(parsed.constants[1], B.value.numpy())


def test_relu_and_clip_with_bounds_of_either_kind():
    parsed = _parse(
        [X], lambda _, x: op.matmul(x, W), lambda v, _: op.nn.relu(v), lambda v, _: op.clip(v, 0.5, 6)
    )
    assert parsed.workload.epilogue == (Step("relu"), Step("clip", bounds=(0.5, 6.0)))
    assert parsed.workload.step("clip") == Step("clip", bounds=(0.5, 6.0))
    assert parsed.workload.step("bias") is None


def test_activation_before_and_after_the_residual():
    parsed = _parse(
        [X, Y],
        lambda _, x, y: op.matmul(x, W),
        lambda v, *_: op.nn.leakyrelu(v, 0.25),
        lambda v, x, y: op.add(v, y),
        lambda v, *_: op.nn.leakyrelu(v, 0.5),
        lambda v, *_: op.nn.silu(v),
    )
    assert [step.name for step in parsed.workload.epilogue] == [
        "leaky_relu",
        "residual",
        "leaky_relu",
        "silu",
    ]
    first, _, last, silu = parsed.workload.epilogue
    assert (first.parameter("alpha"), last.parameter("alpha"), silu.parameters) == (0.25, 0.5, ())


def test_parameter_that_is_read_twice_is_one_input():
    square = constant((5, 5))
    parsed = _parse([Y], lambda _, y: op.matmul(y, square), lambda v, y: op.add(v, y))
    residual = parsed.workload.step("residual")
    assert residual is not None
    assert residual.operand == parsed.workload.operands[0]
    assert parsed.workload.inputs == (parsed.workload.operands[0],)


def test_workloads_are_equal_whatever_the_values_of_their_constants():
    one, other = (_parse([X], lambda _, x, w=w: op.matmul(x, w)) for w in (W, constant((9, 5), 3)))
    assert one.workload == other.workload
    assert hash(one.workload) == hash(other.workload)


def test_a_cast_behind_a_permutation_is_part_of_what_an_operand_is():
    q, k = tensor((2, 7, 8)), tensor((2, 9, 8), "float16")
    function = composite(
        [q, k],
        lambda _, q, k: op.permute_dims(k, [0, 2, 1]),
        lambda keys, *_: op.astype(keys, "float32"),
        lambda keys, q, k: op.matmul(q, keys),
        lambda scores, *_: op.astype(scores, "float16"),
        name=ATTENTION.name,
    )
    parsed = parse(function, ATTENTION)
    assert isinstance(parsed, Composite)
    assert parsed.workload.operands[1] == Operand((2, 9, 8), "float16", "input", 1, (0, 2, 1))
    assert (parsed.workload.epilogue, parsed.workload.output_dtype) == ((Step("cast"),), "float16")


def test_symbolic_shape_is_rejected_with_what_it_is():
    n = tirx.Var("n", "int64")
    answer = parse(composite([tensor((n, 9))], lambda _, x: op.matmul(x, W)), LINEAR)
    assert isinstance(answer, Diagnostic)
    assert answer.limit == "integer dimensions"
    assert "n" in answer.actual


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ((lambda _, x: op.nn.relu(x),), "the first call is relax.nn.relu, not the anchor relax.matmul"),
        ((lambda _, x: op.matmul(x, W), lambda v, _: op.exp(v)), "relax.exp is not a step"),
        (
            (lambda _, x: op.matmul(x, W), lambda v, _: op.nn.relu(v), lambda v, _: op.add(v, B)),
            "relax.add is not",
        ),
        ((lambda _, x: op.matmul(x, W), lambda v, _: op.add(v, v)), "relax.add is not a step"),
        ((lambda _, x: op.matmul(x, W), lambda v, _: op.add(v, constant((7, 5)))), "relax.add is not a step"),
    ],
    ids=["anchor", "unknown", "order", "twice the value", "broadcast over rows"],
)
def test_functions_that_the_spec_does_not_describe(calls, message: str):
    with pytest.raises(ValueError, match=message):
        parse(composite([X], *calls), LINEAR)


def test_attention():
    scale, mask = constant(()), constant((9, 7), 3)
    function = composite(
        [tensor((2, 9, 8)), tensor((2, 8, 7)), tensor((2, 7, 5))],
        lambda _, q, k, v: op.matmul(q, k),
        lambda s, *_: op.multiply(s, scale),
        lambda s, *_: op.add(mask, s),
        lambda s, *_: op.nn.softmax(s, axis=-1),
        lambda p, _q, _k, v: op.matmul(p, v),
        name=ATTENTION.name,
    )
    parsed = parse(function, ATTENTION)
    assert isinstance(parsed, Composite)
    assert parsed.workload.epilogue == (
        Step("scale", Operand((), "float32", "constant", 0)),
        Step("mask", Operand((9, 7), "float32", "constant", 1)),
        Step("softmax"),
        Step("values", Operand((2, 7, 5), "float32", "input", 2)),
    )
    assert parsed.workload.output_shape == (2, 9, 5)
    assert [o.shape for o in parsed.workload.inputs] == [(2, 9, 8), (2, 8, 7), (2, 7, 5)]


def quantized(outputs: int = 2, *tail) -> tuple[relax.Function, dict[str, tirx.PrimFunc]]:
    """A padded convolution of int8, an offset a channel, and a requantisation that is a routine; what follows it."""
    shape = (1, 4, 5, outputs)
    w = relax.const(np.resize(np.arange(-27, 27, dtype=np.int8), (outputs, 3, 3, 3)))
    offset = relax.const(np.resize(np.array([100, -100], np.int32), (1, 1, 1, outputs)))
    # Multipliers of 0.5 * 0.25 / 0.125.
    scales = (0.5, np.full((1, 1, 1, outputs), 0.25, np.float32), np.ones((1, 1, 1, 1), np.float32))
    routine = NUMERICS.requantize((shape, "int32", "int8"), scales, Per(0.125, -3, "int8"), (None, None))
    multipliers = [relax.const(array) for array in routine.constants]
    symbol = ir.GlobalVar("requantize_1")
    relax.expr._update_type(symbol, relax.FuncType.opaque_func())

    def conv(v, *_):
        return op.nn.conv2d(v, w, data_layout="NHWC", kernel_layout="OHWI", out_dtype="int32")

    function = composite(
        [tensor((1, 4, 5, 3), "int8"), *(tensor(shape, "uint8") for _ in tail)],
        lambda _, x, *__: op.nn.pad(x, [0, 0, 1, 1, 1, 1, 0, 0], pad_value=-7),
        conv,
        lambda v, *_: op.add(v, offset),
        lambda v, *_: relax.call_tir(symbol, [v, *multipliers], tensor(shape, "int8")),
        *tail,
        name=CONV2D_S8.name,
    )
    return function, {"requantize_1": routine.func}


def with_residual(outputs: int = 2, *, first: bool = True) -> tuple[relax.Function, dict[str, tirx.PrimFunc]]:
    """The same, and a tensor that is added: the value is the first operand or the second."""
    own, other, y = Per(0.125, -3, "int8"), Per(0.25, 130, "uint8"), Per(0.5, 7, "uint8")
    operands, shape = ((own, other) if first else (other, own)), (1, 4, 5, outputs)
    routine = binary_routine("add", (shape, shape), operands, y, (None, None))
    symbol = ir.GlobalVar("add_1")
    relax.expr._update_type(symbol, relax.FuncType.opaque_func())

    def add(v, _, r):
        return relax.call_tir(symbol, [v, r] if first else [r, v], tensor(shape, "uint8"))

    function, routines = quantized(outputs, add)
    return function, {**routines, "add_1": routine.func}


def test_integer_convolution_with_its_pad_and_requantisation():
    function, routines = quantized()
    parsed = parse(function, CONV2D_S8, routines)
    assert isinstance(parsed, Composite)
    workload = parsed.workload
    assert workload.operands[0] == Operand((1, 4, 5, 3), "int8", "input", 0)
    assert workload.pad == OperandPadding.spatial((1, 1, 1, 1), -7)
    offset, requantize = workload.epilogue
    assert offset == Step("offset", Operand((1, 1, 1, 2), "int32", "constant", 1))
    assert requantize.operand == Operand((1, 1, 1, 2), "float32", "constant", 2)
    assert requantize.parameter("zero_point") == -3
    assert (requantize.parameter("low"), requantize.parameter("high")) == (-128, 127)
    assert requantize.parameter("output_dtype") == "int8"
    assert (workload.output_shape, workload.output_dtype) == ((1, 4, 5, 2), "int8")
    # Of the column of -27 to -1: 378 * 128 + 100, below 2**16; the multiplier is 1.
    assert workload.magnitude == Magnitude(16, 16, 27, fused=True)


def test_integer_convolution_is_lowered_to_an_integer_kernel():
    function, routines = quantized()
    parsed = parse(function, CONV2D_S8, routines)
    assert isinstance(parsed, Composite)
    assert isinstance(gemm_s8_sdot.matches(parsed.workload, CORES["cortex-a76"]), KernelMatch)


@pytest.mark.parametrize("first", [True, False])
def test_the_product_is_the_first_operand_of_its_sum(first: bool):
    function, routines = with_residual(first=first)
    parsed = parse(function, CONV2D_S8, routines)
    assert isinstance(parsed, Composite)
    residual = parsed.workload.epilogue[-1]
    assert residual.operand == Operand((1, 4, 5, 2), "uint8", "input", 1)
    assert [residual.parameter(f"{name}_zero_point") for name in "aby"] == [-3, 130, 7]
    assert [residual.parameter(f"{name}_scale") for name in "aby"] == [0.125, 0.25, 0.5]
    assert parsed.workload.output_dtype == "uint8"
