# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op

from arm_ext.pipeline.selftest import run_on_host
from relay_passes import dynamic_products, fuse
from relay_passes.integerize.dynamic_products import NAME
from relay_passes.ir.sources import relax_functions, sources_of
from relay_passes.rewriter.record import Record
from schedules.composites.vocabulary import VOCABULARY
from schedules.composites.workload import Composite
from schedules.lowering.lower import read
from schedules.numerics.qdq import linear_dynamic_routine
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


def composites(mod: tvm.IRModule) -> list[str]:
    """Return the composites, each with its steps."""
    fused = fuse(mod, VOCABULARY)
    routines = {gv.name_hint: func for gv, func in fused.functions_items() if isinstance(func, tirx.PrimFunc)}
    functions = [func for _, func in relax_functions(fused) if func.attrs and "Composite" in func.attrs]
    parsed = [read(func, routines) for func in functions]
    assert all(isinstance(each, Composite) for each in parsed)
    return [" ".join((p.workload.composite, *(step.name for step in p.workload.epilogue))) for p in parsed]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("row", "scale", "apart"),
    [((), (), False), ((), (COLUMNS,), False), ((ROWS, 1), (COLUMNS,), False), ((ROWS, 1), (), True)],
)
def test_becomes_one_composite_of_the_same_value(
    dtype: str, row: Sequence[int], scale: Sequence[int], apart: bool
):
    before = module(row=row, dtype=dtype, scale=scale, apart=apart)
    after = dynamic_products(before, linear_dynamic_routine)
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


@pytest.mark.parametrize("zero", [0, 1, 120, 128, 255, "of columns"])
def test_weights_of_uint8_less_their_zero_point_are_products_of_int8(zero: int | str):
    rng = np.random.default_rng(5)
    taken = rng.integers(0, 256, COLUMNS) if zero == "of columns" else zero
    weights = np.vstack(
        [rng.integers(0, 256, (DEPTH - 2, COLUMNS)), np.full((1, COLUMNS), 255), np.zeros((1, COLUMNS))]
    )
    before = module(weights=weights - taken)
    after = dynamic_products(before, linear_dynamic_routine)
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
    after = dynamic_products(module(weights=weights), linear_dynamic_routine)
    calls = [b.value for block in after["main"].body.blocks for b in block.bindings]
    assert all(sources_of(call) == ("node",) for call in calls if isinstance(call, relax.Call))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"weights": np.full((3, 2), 256)}, "weight is wider than the difference of two bytes"),
        ({"weights": np.ones((70_000, 1))}, "sums may leave 32 bits"),
        ({"zero_shape": (DEPTH,)}, "zero point is not one a row or one"),
    ],
)
def test_others_are_left_and_it_is_said_why(arguments: dict[str, object], reason: str):
    before = module(**arguments)  # type: ignore[arg-type]
    record = Record()
    assert dynamic_products(before, linear_dynamic_routine, record) is before
    (rejected,) = record.explanation(NAME).rejected
    assert (rejected.reason, rejected.nodes) == (reason, ("node",))


def convolution(kernel: int) -> tvm.IRModule:
    """Return the form of ConvInteger, whose zero point is taken off before."""
    net, weights = Net(3), np.random.default_rng(3).integers(-127, 128, (COLUMNS, kernel, kernel, DEPTH))
    q, zero = tensor("q", 1, 5, 4, DEPTH, dtype="uint8"), tensor("z", dtype="uint8")
    s = tensor("s")

    def body() -> relax.Expr:
        parts = [net.emit("node", op.astype(each, "int32")) for each in (q, zero)]
        data, w = net.emit("node", op.subtract(*parts)), relax.const(weights.astype(np.int32))
        layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
        y = net.emit("node", op.nn.conv2d(data, w, padding=kernel // 2, **layouts, out_dtype="int32"))
        return net.emit("node", op.multiply(net.emit("node", op.astype(y, "float32")), s))

    return net.module([q, zero, s], body)


@pytest.mark.parametrize(
    ("kernel", "expected"), [(1, "arm.linear_dynamic cast row_scale"), (3, "arm.conv2d")], ids=["1", "3"]
)
def test_convolution_has_a_kernel(kernel: int, expected: str):
    before = convolution(kernel)
    after = dynamic_products(before, linear_dynamic_routine)
    assert composites(after) == [expected]
    rng = np.random.default_rng(4)
    q = rng.integers(0, 256, (1, 5, 4, DEPTH)).astype(np.uint8)
    inputs = [q, np.array(131, np.uint8), np.array(0.01, np.float32)]
    (wanted,), (actual,) = run_on_host(before, inputs), run_on_host(after, inputs)
    # Sums below 2^24: 279 products of at most 131 * 127.
    np.testing.assert_array_equal(actual, wanted)
