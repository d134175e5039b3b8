# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N812 - TVMScript's R
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.script import relax as R

from relay_passes.fusion.combine_matmuls import NAME, combine_matmuls
from relay_passes.fusion.fuse import fuse
from relay_passes.ir.sources import bindings_of, sources_of
from relay_passes.ir.upstream import run_upstream
from relay_passes.ir.verify import verify
from relay_passes.rewriter.record import RewriteRecord
from schedules.diagnostic import Diagnostic
from tests.relay_passes.forms import Ops, form
from tests.relay_passes.fusion.test_fuse import LINEAR
from tests.relay_passes.graphs import Net, inputs_of, operators, run, tensor

SHAPE = (2, 7, 9)
Write = Callable[..., Expr]


@dataclass(frozen=True)
class Cycles:
    """A cycle for each element of a product in tiles of `tile` columns, and `copy` for each that is split."""

    tile: int = 8
    copy: float = 0.0
    cache: int = 1 << 20

    def linear(self, data: Sequence[int], columns: int, *, bias: bool) -> float | None:
        rows = int(np.prod(data[:-1]))
        # One for the call; a kernel for 100 columns and more is missing.
        return None if columns >= 100 else 1 + rows * (-(-columns // self.tile) * self.tile + bias)

    def split(self, shape: Sequence[int]) -> float:
        return self.copy * float(np.prod(shape))


WINS = Cycles()


def _weight(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def _linear(ops: Ops, x: Expr, seed: int, columns: int, bias: bool = True) -> Expr:
    y = ops.matmul(x, _weight(seed, 9, columns))
    return ops.add(_weight(seed + 10, columns), y) if bias else y


def _qkv(*columns: int, bias: bool = True) -> Write:
    """Parallel linear layers, whose results all meet in one value."""

    def write(ops: Ops, x: Expr) -> Expr:
        parts = [_linear(ops, x, seed, n, bias) for seed, n in enumerate(columns)]
        return ops.concat([ops.exp(part) for part in parts], axis=-1)

    return write


def _module(write: Write, *shapes: tuple[int, ...], dtype: str = "float32") -> tvm.IRModule:
    mod = form(write, *(shapes or (SHAPE,)), dtype=dtype)
    return run_upstream(mod, relax.transform.CanonicalizeBindings())


def _matmuls(mod: tvm.IRModule) -> int:
    return operators(mod["main"]).count("matmul")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("columns", [(8, 8, 8), (8, 31, 1), (7, 9)])
def test_parallel_matmuls_become_one_of_the_same_values(columns: tuple[int, ...], bias: bool) -> None:
    mod = _module(_qkv(*columns, bias=bias))
    after = verify(combine_matmuls(mod, (LINEAR,), WINS), after="combine_matmuls")
    assert operators(after["main"])[: 2 + bias] == ["matmul", *["add"] * bias, "split"]
    assert _matmuls(after) == 1
    tvm.ir.assert_structural_equal(after["main"].ret_ty, mod["main"].ret_ty)
    inputs = inputs_of(mod)
    np.testing.assert_array_equal(run(after, *inputs), run(mod, *inputs))


def test_every_name_is_kept() -> None:
    net, x = Net(), tensor("x", 7, 9)

    def body() -> Expr:
        products = {n: net.emit(f"{n}/mm", op.matmul(x, net.const(9, 8))) for n in "qkv"}
        sums = [net.emit(f"{n}/add", op.add(y, net.const(8))) for n, y in products.items()]
        return net.emit("concat", op.concat([net.emit("exp", op.exp(y)) for y in sums]))

    mod = run_upstream(net.module([x], body), relax.transform.CanonicalizeBindings())
    calls = [b.value for b in bindings_of(combine_matmuls(mod, (LINEAR,), WINS)["main"])]
    assert sources_of(calls[0]) == ("q/mm", "k/mm", "v/mm")
    assert sources_of(calls[1]) == sources_of(calls[2]) == ("q/add", "k/add", "v/add")


def test_the_result_is_one_composite() -> None:
    fused = fuse(combine_matmuls(_module(_qkv(8, 8, 8)), (LINEAR,), WINS), (LINEAR,))
    composites = [f for _, f in fused.functions_items() if f.attrs and "Composite" in f.attrs]
    assert [operators(func) for func in composites] == [["matmul", "add"]]


def test_two_values_are_two_sets() -> None:
    def write(ops: Ops, x: Expr, y: Expr) -> Expr:
        parts = [ops.exp(_linear(ops, value, seed, 8)) for seed, value in enumerate((x, y, x, y))]
        return ops.concat(parts)

    mod = _module(write, SHAPE, SHAPE)
    after = combine_matmuls(mod, (LINEAR,), WINS)
    assert _matmuls(after) == 2
    inputs = inputs_of(mod)
    np.testing.assert_array_equal(run(after, *inputs), run(mod, *inputs))


def test_results_of_the_function_stay_its_results() -> None:
    @R.function
    def main(x: R.Tensor((7, 9), "float32"), w: R.Tensor((9, 8), "float32"), u: R.Tensor((9, 5), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.matmul(x, u)
            R.output(y, z)
        return (y, z)

    weights = {"w": _weight(0, 9, 8).astype("float32"), "u": _weight(1, 9, 5).astype("float32")}
    mod = tvm.IRModule({"main": main.bind_params(weights)})
    after = combine_matmuls(mod, (LINEAR,), WINS)
    assert (_matmuls(after), after["main"].ret_ty) == (1, mod["main"].ret_ty)
    relax.analysis.well_formed(after)


def test_a_lone_matmul_is_left() -> None:
    mod = _module(lambda ops, x: ops.exp(_linear(ops, x, 0, 8)))
    tvm.ir.assert_structural_equal(combine_matmuls(mod, (LINEAR,), WINS), mod)


def _relu(ops: Ops, x: Expr) -> Expr:
    parts = [_linear(ops, x, 0, 8), ops("nn.relu", _linear(ops, x, 1, 8))]
    return ops.concat([ops.exp(part) for part in parts])


def _mixed(ops: Ops, x: Expr) -> Expr:
    return ops.concat([ops.exp(_linear(ops, x, seed, 8, bias=bool(seed))) for seed in range(2)])


def _residual(ops: Ops, x: Expr) -> Expr:
    parts = [ops.exp(ops.add(_linear(ops, x, seed, 9, bias=False), x)) for seed in range(2)]
    return ops.concat(parts)


LEFT: dict[str, Write] = {
    "a relu would come out of its composite": _relu,
    "a bias here and none there": _mixed,
    "a residual add": _residual,
    "no constant": lambda ops, x: ops.concat([ops.exp(ops.matmul(x, ops.exp(_square(s)))) for s in range(2)]),
    "batched constants": lambda ops, x: ops.concat(
        [ops.exp(ops.matmul(x, _weight(seed, 2, 9, 8))) for seed in range(2)]
    ),
}


def _refused(columns: tuple[int, ...], costs: Cycles) -> Diagnostic:
    mod = _module(_qkv(*columns), (512, 9))
    record = RewriteRecord()
    tvm.ir.assert_structural_equal(combine_matmuls(mod, (LINEAR,), costs, record), mod)
    assert record.passes[NAME].applied == ()
    (why,) = record.passes[NAME].rejected
    assert why.nodes == ("matmul", "add")
    return why


def test_whole_tiles_are_left_where_the_split_costs_more() -> None:
    why = _refused((8, 16), Cycles(copy=0.25))
    assert (why.reason, why.limit, why.actual) == (
        "together they take more cycles than apart",
        f"below {2 + 512 * (24 + 2)}",
        str(1 + 512 * (24 + 1) + 512 * 24 // 4),
    )
    assert why.hint == "12801 cycles of the product, 3072 of its split"


def test_odd_widths_are_combined_at_the_same_costs() -> None:
    mod = _module(_qkv(9, 7), (512, 9))
    record = RewriteRecord()
    assert _matmuls(combine_matmuls(mod, (LINEAR,), Cycles(copy=0.25), record)) == 1
    assert record.hits()[NAME] == 1


def test_a_combined_value_that_leaves_the_cache_is_told() -> None:
    why = _refused((8, 16), Cycles(copy=0.25, cache=512 * 24 * 4 - 1))
    assert why.hint.endswith("of its split, of a value of 49152 bytes that leaves the cache of 49151")


def test_without_an_estimate_they_are_left() -> None:
    assert _refused((60, 60), WINS).reason == "no kernel estimates their cost"


def _square(seed: int) -> Expr:
    return relax.const(_weight(seed, 9, 9).astype("float32"))


@pytest.mark.parametrize("name", LEFT)
def test_others_are_left(name: str) -> None:
    mod = _module(LEFT[name])
    tvm.ir.assert_structural_equal(combine_matmuls(mod, (LINEAR,), WINS), mod)


def test_products_of_another_dtype_are_left() -> None:
    net, x = Net(), tensor("x", 7, 9, dtype="float16")
    weights = [relax.const(_weight(seed, 9, 8).astype("float16")) for seed in range(2)]

    def body() -> Expr:
        return op.concat([net.emit(f"mm{n}", op.matmul(x, w)) for n, w in enumerate(weights)])

    mod = run_upstream(net.module([x], body), relax.transform.CanonicalizeBindings())
    half = replace(LINEAR, dtypes=("float16",))
    tvm.ir.assert_structural_equal(combine_matmuls(mod, (half,), WINS), mod)
