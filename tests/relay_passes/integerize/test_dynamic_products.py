# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op

from arm_ext.pipeline.selftest import run_on_host
from relay_passes import dynamic_products, fuse
from relay_passes.integerize.dynamic_products import NAME
from relay_passes.ir.sources import relax_functions, sources_of
from relay_passes.rewriter.record import RewriteRecord
from schedules.composites.vocabulary import VOCABULARY
from schedules.composites.workload import Composite
from schedules.lowering.lower import read
from schedules.numerics.qdq import conv_dynamic_routine, linear_dynamic_routine, matmul_dynamic_routine
from tests.relay_passes.graphs import Net, tensor

ROWS, DEPTH, COLUMNS = 5, 31, 9


def module(
    *,
    weights: np.ndarray | None = None,
    row: Sequence[int] = (),
    dtype: str = "uint8",
    scale: Sequence[int] = (),
    apart: bool = False,
    zero_shape: Sequence[int] | None = None,
) -> tvm.IRModule:
    """Return the form of DynamicQuantizeLinear and MatMulInteger, with bias and relu.

    Args:
        weights: Without their zero point.
        row: Shape of the data's scale and zero point.
        dtype: Of the data.
        scale: Shape of the weights' scale.
        apart: Whether the scales are multiplied one after the other.
        zero_shape: Of the zero point, where it is not that of the scale.
    """
    net = Net(3)
    w = net.rng.integers(-128, 128, (DEPTH, COLUMNS)) if weights is None else weights
    q, zero = (
        tensor("q", ROWS, len(w), dtype=dtype),
        tensor("z", *(row if zero_shape is None else zero_shape), dtype=dtype),
    )
    s, other = tensor("s", *row), net.const(*scale, low=0.01, high=0.02)

    def body() -> relax.Expr:
        parts = [net.emit("node", op.astype(each, "int32")) for each in (q, zero)]
        data = net.emit("node", op.subtract(*parts))
        total = net.emit("node", op.matmul(data, relax.const(w.astype(np.int32)), out_dtype="int32"))
        y = net.emit("node", op.astype(total, "float32"))
        if apart:
            y = net.emit("node", op.multiply(net.emit("node", op.multiply(y, s)), other))
        else:
            y = net.emit("node", op.multiply(y, net.emit("node", op.multiply(s, other))))
        return net.emit("node", op.nn.relu(net.emit("node", op.add(y, net.const(w.shape[1])))))

    return net.module([q, zero, s], body)


def rewritten(mod: tvm.IRModule, record: RewriteRecord | None = None, *, sums: bool = False) -> tvm.IRModule:
    routines = linear_dynamic_routine, conv_dynamic_routine, matmul_dynamic_routine
    return dynamic_products(mod, *routines, record, sums=sums)


def composites(mod: tvm.IRModule) -> list[str]:
    """Return the composites, each with its steps."""
    fused = fuse(mod, VOCABULARY)
    routines = {gv.name_hint: func for gv, func in fused.functions_items() if isinstance(func, tirx.PrimFunc)}
    functions = [func for _, func in relax_functions(fused) if func.attrs and "Composite" in func.attrs]
    parsed = [read(func, routines) for func in functions]
    assert all(isinstance(each, Composite) for each in parsed)
    return [" ".join((p.workload.composite, *(step.name for step in p.workload.epilogue))) for p in parsed]


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("row", "scale", "apart"),
    [((), (), False), ((), (COLUMNS,), False), ((ROWS, 1), (COLUMNS,), False), ((ROWS, 1), (), True)],
)
def test_becomes_one_composite_of_the_same_value(
    dtype: str, row: Sequence[int], scale: Sequence[int], apart: bool
):
    before = module(row=row, dtype=dtype, scale=scale, apart=apart)
    after = rewritten(before)
    assert composites(after) == ["arm.linear_dynamic cast row_scale scale bias relu"]
    rng, info = np.random.default_rng(4), np.iinfo(dtype)
    inputs = [
        rng.integers(info.min, info.max + 1, (ROWS, DEPTH)).astype(dtype),
        np.asarray(rng.integers(info.min, info.max + 1, row), dtype),
        np.asarray(rng.uniform(0.01, 0.02, row), np.float32),
    ]
    (expected,), (actual,) = run_on_host(before, inputs), run_on_host(after, inputs)
    # Two products of scales in another order.
    np.testing.assert_allclose(
        actual, expected, rtol=4 * 2.0**-24, atol=4 * 2.0**-24 * np.abs(expected).max()
    )


def sums_as_floats(*, window: tuple[int, int] | None, groups: int = 1, offset: bool, shared: bool = False):
    """Return a product of constants and uint8 data whose sums become floats, without `astype(q) - z`.

    Args:
        window: Kernel of a convolution; None for a matrix product.
        groups: Of the convolution.
        offset: Whether a constant is added to the sums.
        shared: Whether the sums are an output, too.
    """
    net = Net(3)
    shape = (ROWS, 8) if window is None else (2, 7, 9, 8)
    q = tensor("q", *shape, dtype="uint8")
    w = net.rng.integers(-128, 128, (8, 16) if window is None else (16, *window, 8 // groups)).astype(np.int8)

    def body() -> relax.Expr:
        layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_dtype": "int32"}
        total = (
            op.matmul(q, relax.const(w), out_dtype="int32")
            if window is None
            else op.nn.conv2d(q, relax.const(w), strides=[2, 1], padding=[1, 0], groups=groups, **layouts)
        )
        sums = y = net.emit("node", total)
        if offset:
            y = net.emit(
                "node", op.add(y, relax.const(net.rng.integers(-(2**27), 2**27, 16).astype(np.int32)))
            )
        y = net.emit("node", op.multiply(net.emit("node", op.astype(y, "float32")), net.const(16)))
        y = net.emit("node", op.nn.relu(net.emit("node", op.add(y, net.const(16)))))
        return net.emit("node", op.add(y, op.astype(op.bitwise_not(sums), "float32"))) if shared else y

    return net.module([q], body)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize(
    ("window", "groups", "expected"),
    [
        (None, 1, "arm.linear_dynamic"),
        ((3, 2), 1, "arm.conv2d_dynamic"),
        ((3, 3), 2, "arm.conv2d_dynamic"),
        ((1, 1), 1, "arm.conv2d_dynamic"),
    ],
)
def test_sums_that_become_floats_are_one_composite_of_the_same_value(
    window: tuple[int, int] | None, groups: int, expected: str, offset: bool
):
    before = sums_as_floats(window=window, groups=groups, offset=offset)
    assert rewritten(before) is before
    after = rewritten(before, sums=True)
    assert composites(after) == [f"{expected}{' offset' * offset} cast scale bias relu"]
    (param,) = before["main"].params
    q = np.random.default_rng(4).integers(0, 256, [int(n) for n in param.ty.shape]).astype(np.uint8)
    np.testing.assert_array_equal(*(run_on_host(mod, [q])[0] for mod in (before, after)))


def test_sums_that_others_read_stay():
    before = sums_as_floats(window=None, offset=True, shared=True)
    assert rewritten(before, sums=True) is before


def product_of_two(zero_dtype: str = "uint8", zero_shape: Sequence[int] = ()) -> tvm.IRModule:
    """The dequantised product of two run-time tensors."""
    net = Net(3)
    q, p = tensor("q", 2, ROWS, DEPTH, dtype="uint8"), tensor("p", 2, DEPTH, COLUMNS, dtype="uint8")
    z, y = (tensor(name, *zero_shape, dtype=zero_dtype) for name in "zy")

    def body() -> relax.Expr:
        left, right = (
            net.emit("node", op.subtract(*(net.emit("node", op.astype(each, "int32")) for each in pair)))
            for pair in ((q, z), (p, y))
        )
        total = net.emit("node", op.matmul(left, right, out_dtype="int32"))
        return net.emit("node", op.astype(total, "float32"))

    return net.module([q, p, z, y], body)


def test_a_product_of_two_run_time_tensors_becomes_one_composite_of_the_same_value():
    before = product_of_two()
    after = rewritten(before)
    assert composites(after) == ["arm.matmul_dynamic"]
    rng = np.random.default_rng(4)
    inputs = [
        *(rng.integers(0, 256, shape).astype(np.uint8) for shape in ((2, ROWS, DEPTH), (2, DEPTH, COLUMNS))),
        np.uint8(3),
        np.uint8(250),
    ]
    (expected,), (actual,) = run_on_host(before, inputs), run_on_host(after, inputs)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("zero_dtype", "zero_shape", "reason"),
    [
        ("int8", (), "zero point may be out of the range of the data"),
        ("uint8", (2, 1, 1), "zero point is no scalar"),
    ],
)
def test_zero_points_that_keep_a_product_of_two_tensors(
    zero_dtype: str, zero_shape: Sequence[int], reason: str
):
    record = RewriteRecord()
    rewritten(product_of_two(zero_dtype, zero_shape), record)
    assert [each.reason for each in record.passes[NAME].rejected] == [reason]


@pytest.mark.parametrize("zero", [0, 1, 120, 128, 255, "of columns"])
def test_weights_of_uint8_less_their_zero_point_are_products_of_int8(zero: int | str):
    rng = np.random.default_rng(5)
    taken = rng.integers(0, 256, COLUMNS) if zero == "of columns" else zero
    weights = np.vstack(
        [rng.integers(0, 256, (DEPTH - 2, COLUMNS)), np.full((1, COLUMNS), 255), np.zeros((1, COLUMNS))]
    )
    before = module(weights=weights - taken)
    after = rewritten(before)
    assert composites(after) == ["arm.linear_dynamic cast row_scale scale bias relu"]
    inputs = [
        rng.integers(0, 256, (ROWS, DEPTH)).astype(np.uint8),
        np.array(77, np.uint8),
        np.array(1, np.float32),
    ]
    (expected,), (actual,) = run_on_host(before, inputs), run_on_host(after, inputs)
    # The sums are the same; the bias is added by a fused multiply-add.
    np.testing.assert_allclose(actual, expected, rtol=2 * 2.0**-24, atol=2.0**-24 * np.abs(expected).max())


@pytest.mark.parametrize("weights", [None, np.full((3, 2), 255)], ids=["int8", "wider"])
def test_every_call_keeps_its_source(weights: np.ndarray | None):
    after = rewritten(module(weights=weights))
    calls = [b.value for block in after["main"].body.blocks for b in block.bindings]
    assert all(sources_of(call) == ("node",) for call in calls if isinstance(call, relax.Call))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"weights": np.array([[0], [256]])}, "weights of a column differ by more than 8 bits can"),
        ({"weights": np.full((70_000, 1), 127)}, "sums may overflow 32 bits"),
        ({"zero_shape": (DEPTH,)}, "zero point is neither per row nor a scalar"),
    ],
)
def test_others_are_left_and_it_is_said_why(arguments: dict[str, object], reason: str):
    before = module(**arguments)  # type: ignore[arg-type]
    record = RewriteRecord()
    assert rewritten(before, record) is before
    (rejected,) = record.explanation(NAME).rejected
    assert (rejected.reason, rejected.nodes) == (reason, ("node",))


@dataclass(frozen=True)
class Window:
    """A convolution and the form of its data.

    Attributes:
        kernel: Kernel size along each axis.
        groups: Number of channel groups.
        zero: Zero point of the data: "input", a constant, or None for none.
        to_float: Whether the sums are cast to float.
    """

    kernel: tuple[int, ...]
    groups: int = 1
    zero: object = "input"
    to_float: bool = True


def convolution(window: Window) -> tvm.IRModule:
    """Return the form of ConvInteger, whose zero point is taken off before."""
    channels = 10
    shape = (COLUMNS + 1, *window.kernel, channels // window.groups)
    net, weights = Net(3), np.random.default_rng(3).integers(-127, 128, shape)
    sizes = (5, 4)[: len(window.kernel)]
    q, s = tensor("q", 1, *sizes, channels, dtype="uint8"), tensor("s")
    zero = tensor("z", dtype="uint8")
    layouts, convolve = (
        ({"data_layout": "NHWC", "kernel_layout": "OHWI"}, op.nn.conv2d),
        ({"data_layout": "NWC", "kernel_layout": "OWI"}, op.nn.conv1d),
    )[len(window.kernel) == 1]

    def body() -> relax.Expr:
        data = net.emit("node", op.astype(q, "int32"))
        if window.zero == "input":
            data = net.emit("node", op.subtract(data, net.emit("node", op.astype(zero, "int32"))))
        elif window.zero is not None:
            data = net.emit("node", op.subtract(data, relax.const(window.zero, "int32")))
        padding = [size // 2 for size in window.kernel] * 2
        w = relax.const(weights.astype(np.int32))
        y = convolve(data, w, padding=padding, groups=window.groups, **layouts, out_dtype="int32")
        y = net.emit("node", y)
        return (
            net.emit("node", op.multiply(net.emit("node", op.astype(y, "float32")), s))
            if window.to_float
            else y
        )

    return net.module([q, zero, s], body)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window((1, 1)), "arm.linear_dynamic cast row_scale"),
        (Window((3, 3)), "arm.conv2d_dynamic cast row_scale"),
        (Window((3, 2), groups=2, zero=77), "arm.conv2d_dynamic cast row_scale"),
        (Window((3, 3), zero=None, to_float=False), "arm.conv2d_dynamic_sums"),
        (Window((3,)), "arm.conv1d_dynamic cast row_scale"),
        (Window((3, 3), groups=10), "arm.conv2d"),
        (Window((3, 3), groups=10, to_float=False), "arm.conv2d"),
    ],
    ids=str,
)
def test_convolution_has_a_kernel(window: Window, expected: str):
    before = convolution(window)
    after = rewritten(before)
    assert composites(after) == [expected]
    rng = np.random.default_rng(4)
    q = rng.integers(0, 256, [int(n) for n in before["main"].params[0].ty.shape]).astype(np.uint8)
    inputs = [q, np.array(131, np.uint8), np.array(0.01, np.float32)]
    (wanted,), (actual,) = run_on_host(before, inputs), run_on_host(after, inputs)
    np.testing.assert_array_equal(actual, wanted)
