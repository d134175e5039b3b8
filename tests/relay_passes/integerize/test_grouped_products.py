# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from arm_ext.pipeline.phases import linear_grouped_routine
from relay_passes import canonicalize, fold_constants, fuse, grouped_products, unpack_weights, verify
from relay_passes.integerize.grouped_products import NAME
from relay_passes.ir.sources import bindings_of, relax_functions
from relay_passes.rewriter.record import RewriteRecord
from schedules.composites.vocabulary import VOCABULARY
from tests.relay_passes.graphs import Net, tensor
from tests.relay_passes.rules.rewrites import ROUNDOFF, graph, relative_error

N = 7
RNG = np.random.default_rng(0)


def matrix(net: Net, depth: int, group: int, *, least: int = -8, most: int = 7) -> Expr:
    """Weights [depth, N] as importers leave those with a scale a block."""
    count = -(-depth // group)
    integers = RNG.integers(least, most + 1, (N * count, group)).astype(np.int8)
    scales = RNG.uniform(0.1, 0.3, N * count).astype(np.float32)
    value = op.dequantize(relax.const(integers), relax.const(scales), relax.const(0, "int8"), axis=0)
    value = op.reshape(net.emit("blocks", value), (N, count * group))
    if depth < count * group:
        value = op.strided_slice(net.emit("rows", value), [1], [0], [depth])
    return net.emit("w", op.permute_dims(net.emit("cut", value), [1, 0]))


def product(depth: int, group: int, **limits: int) -> tvm.IRModule:
    def build(net: Net, x: Expr) -> Expr:
        fc = net.emit("fc", op.matmul(x, matrix(net, depth, group, **limits)))
        return net.emit("relu", op.nn.relu(net.emit("bias", op.add(fc, net.const(N)))))

    return canonicalize(graph(build, tensor("x", 3, depth)))


def after(mod: tvm.IRModule, record: RewriteRecord | None = None) -> tvm.IRModule:
    out = grouped_products(mod, linear_grouped_routine, record)
    verify(out, after=NAME)
    return unpack_weights(mod if out.same_as(mod) else fold_constants(out))[0]


def composites(mod: tvm.IRModule) -> list[str]:
    functions = relax_functions(fuse(mod, VOCABULARY))
    return [str(f.attrs["Composite"]) for _, f in functions if f.attrs and "Composite" in f.attrs]


@pytest.mark.parametrize(
    ("depth", "group", "limits"),
    [
        *((depth, group, {}) for depth, group in ((32, 8), (31, 8), (9, 4), (8, 8), (7, 32), (9, 9))),
        (31, 8, {"least": -3, "most": 12}),
        (32, 8, {"least": -128, "most": 127}),
    ],
)
def test_product_and_its_epilogue_are_one_composite(depth: int, group: int, limits: dict[str, int]) -> None:
    mod, record = product(depth, group, **limits), RewriteRecord()
    out = after(mod, record)
    assert composites(out) == ["arm.linear_blocks_float"]
    assert record.passes[NAME].applied == (("fc",),)
    assert relative_error(mod, out) <= 4 * depth * ROUNDOFF


REJECTIONS: dict[str, Callable[[], tvm.IRModule]] = {
    "group is no multiple of a vector's lanes (expected 4, found 6)": lambda: product(12, 6),
}


@pytest.mark.parametrize("reason", REJECTIONS)
def test_what_it_does_not_take_is_a_float_constant(reason: str) -> None:
    mod, record = REJECTIONS[reason](), RewriteRecord()
    out = after(mod, record)
    (rejected,) = record.passes[NAME].rejected
    assert str(rejected).partition(": ")[2] == reason
    assert composites(out) == ["arm.linear"]
    assert relative_error(mod, out) <= 64 * ROUNDOFF


def test_rows_of_a_table_are_told() -> None:
    """Weights are followed through what only moves their elements."""

    def build(net: Net, ids: Expr) -> Expr:
        return net.emit(
            "rows", op.take(net.emit("t", op.permute_dims(matrix(net, 8, 4), [1, 0])), ids, axis=0)
        )

    mod = canonicalize(graph(build, relax.Var("ids", relax.TensorType((3,), "int32"))))
    (told,) = unpack_weights(grouped_products(mod, linear_grouped_routine))[1]
    assert str(told) == "rows: take: no kernel reads int8 weights beside its data, which is float"


def test_weights_that_something_else_reads_are_a_float_constant() -> None:
    def build(net: Net, x: Expr) -> Expr:
        return net.emit("y", op.add(x, matrix(net, 8, 4)))

    mod = canonicalize(graph(build, tensor("x", 8, N)))
    out = after(mod)
    assert [b.value.op.name for b in bindings_of(out["main"])] == ["relax.add"]
    assert relative_error(mod, out) == 0


def test_a_scale_a_column_is_left_to_the_product_of_8_bits() -> None:
    def build(net: Net, x: Expr) -> Expr:
        integers = relax.const(RNG.integers(-128, 128, (N, 8)).astype(np.int8))
        scales = relax.const(np.linspace(0.1, 1, N, dtype=np.float32))
        value = net.emit("w", op.dequantize(integers, scales, relax.const(0, "int8"), axis=0))
        return net.emit("fc", op.matmul(x, net.emit("t", op.permute_dims(value, [1, 0]))))

    mod, record = canonicalize(graph(build, tensor("x", 3, 8))), RewriteRecord()
    assert grouped_products(mod, linear_grouped_routine, record).same_as(mod)
    assert record.passes[NAME].rejected == ()
