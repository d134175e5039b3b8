# SPDX-License-Identifier: Apache-2.0
from functools import cache

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import relax, tirx
from tvm.ir import Expr
from tvm.relax import op, transform

from relay_passes.canonicalize.define_sorts import define_sorts
from relay_passes.canonicalize.fold_constants import fold_constants
from relay_passes.ir.sources import bindings_of, unnamed_calls
from tests.relay_passes.graphs import Net, inputs_of, operators, residual_block, run, tensor


def _scale_and_zero_point() -> tuple[Expr, Expr]:
    return relax.const(np.float32(0.5)), relax.const(np.int8(3))


def test_a_chain_folds_to_its_value() -> None:
    net, x = Net(), tensor("x", 1, 8, 1, 1)
    stored = net.const(8)

    def body() -> Expr:
        y = net.emit("reshape", op.reshape(net.emit("exp", op.exp(stored)), (1, 8, 1, 1)))
        return net.emit("add", op.add(x, y))

    (add,) = [
        b.value for b in bindings_of(fold_constants(net.module([x], body))["main"]) if hasattr(b.value, "op")
    ]
    folded = add.args[1].value.numpy()
    # The host's exp is within 2 units of the last place of numpy's.
    np.testing.assert_array_max_ulp(folded, np.exp(stored.value.numpy()).reshape(1, 8, 1, 1), maxulp=2)


def test_the_result_is_that_of_upstreams_pass() -> None:
    mod = residual_block()
    upstream = transform.DeadCodeElimination()(transform.FoldConstant()(mod))
    tvm.ir.assert_structural_equal(fold_constants(mod), upstream)


def test_calls_of_generated_functions_fold_too() -> None:
    net, x = Net(), tensor("x", 7)
    bound = net.const(7)

    def body() -> Expr:
        twice = net.emit("clip", net.bb.call_te(tvm.topi.add, bound, bound))
        return net.emit("sub", op.subtract(x, twice))

    folded = fold_constants(net.module([x], body))
    assert operators(folded["main"]) == ["subtract"]
    assert unnamed_calls(folded) == []


def test_static_shapes_are_constants() -> None:
    net, x, i = Net(), tensor("x", 7, 9), tensor("i", 31, dtype="int64")

    def body() -> Expr:
        shape = net.emit("shape", op.shape_to_tensor(net.emit("shape", op.shape_of(x))))
        size = net.emit("size", op.take(shape, relax.const(1, "int64"), 0))
        return net.emit("add", op.add(i, size))

    folded = fold_constants(net.module([x, i], body))
    (add,) = [b.value for b in bindings_of(folded["main"]) if hasattr(b.value, "op")]
    assert int(add.args[1].value.numpy()) == 9


def test_shapes_of_run_time_are_left() -> None:
    rows = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((rows, 9), "float32"))
    net = Net()
    mod = net.module([x], lambda: net.emit("shape", op.shape_to_tensor(net.emit("shape", op.shape_of(x)))))
    tvm.ir.assert_structural_equal(fold_constants(mod), mod)


def test_quantised_constants_stay_integers() -> None:
    net, x = Net(), tensor("x", 7)
    weight = net.const(7)

    def body() -> Expr:
        stored = net.emit("quantize", op.quantize(weight, *_scale_and_zero_point(), axis=0, out_dtype="int8"))
        return net.emit(
            "add", op.add(x, net.emit("dequantize", op.dequantize(stored, *_scale_and_zero_point(), axis=0)))
        )

    mod = net.module([x], body)
    folded = fold_constants(mod)
    assert operators(folded["main"]) == ["dequantize", "add"]
    (dequantize, *_) = [b.value for b in bindings_of(folded["main"])]
    np.testing.assert_array_equal(dequantize.args[0].value.numpy(), np.rint(weight.value.numpy() / 0.5) + 3)
    np.testing.assert_array_equal(run(folded, *inputs_of(mod)), run(mod, *inputs_of(mod)))
    assert operators(fold_constants(mod, keep=())["main"]) == ["add"]


def test_activations_and_outputs_are_left_as_they_are() -> None:
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        q = net.emit("q", op.quantize(x, *_scale_and_zero_point(), axis=0, out_dtype="int8"))
        return net.emit("dq", op.dequantize(q, *_scale_and_zero_point(), axis=0))

    mod = net.module([x], body)
    tvm.ir.assert_structural_equal(fold_constants(mod), mod)


_ROW = np.array(
    [[1, np.nan, -0.0, 0], [-np.inf, -np.inf, -np.inf, -np.inf], [np.inf, -1, 0, -0.0]], np.float32
)
_OTHER = np.array(
    [[np.nan, 2, 0, -0.0], [-np.inf, 0, np.nan, np.inf], [-np.inf, -1, np.nan, -0.0]], np.float32
)
_INDEX = np.array([[0, 0, 1, 1]] * 3, np.int64)
_ONES = np.ones((3, 3000), np.float16)

_FAMILIES = {
    "relu": (op.nn.relu, np.where(np.isnan(_ROW), _ROW, np.maximum(_ROW, 0))),
    "clip": (lambda x: op.clip(x, -1.0, 0.5), np.clip(_ROW, -1, 0.5)),
    "maximum": (lambda x: op.maximum(x, relax.const(_OTHER)), np.maximum(_ROW, _OTHER)),
    "minimum": (lambda x: op.minimum(x, relax.const(_OTHER)), np.minimum(_ROW, _OTHER)),
    "max": (lambda x: op.max(x, 1), _ROW.max(1)),
    "min": (lambda x: op.min(x, 1), _ROW.min(1)),
    "not_equal": (lambda x: op.astype(op.not_equal(x, relax.const(_OTHER)), "float32"), _ROW != _OTHER),
    "scatter": (
        lambda x: op.scatter_elements(x, relax.const(_INDEX), relax.const(_OTHER), 1, "max"),
        [[np.nan, np.nan, 0, 0], [0, np.nan, -np.inf, -np.inf], [np.inf, np.nan, 0, -0.0]],
    ),
    "sum of float16": (lambda _: op.astype(op.sum(relax.const(_ONES), 1), "float32"), [3000.0] * 3),
    "mean of float16": (lambda _: op.astype(op.mean(relax.const(_ONES), 1), "float32"), [1.0] * 3),
    "product of float16": (
        lambda _: op.astype(op.matmul(relax.const(_ONES), relax.const(_ONES[0])), "float32"),
        [3000.0] * 3,
    ),
}


@cache
def _folded() -> dict[str, npt.NDArray[np.float32]]:
    """Return what fold_constants makes of each family's call of a constant, from one module."""
    net, rest = Net(), tensor("x", 1)

    def body() -> Expr:
        calls = [net.emit(name, of(relax.const(_ROW))) for name, (of, _) in _FAMILIES.items()]
        return net.bb.emit(relax.Tuple([net.emit("add", op.add(rest, call)) for call in calls]))

    adds = [
        b.value
        for b in bindings_of(fold_constants(net.module([rest], body))["main"])
        if hasattr(b.value, "op")
    ]
    return {name: add.args[1].value.numpy() for name, add in zip(_FAMILIES, adds, strict=True)}


@pytest.mark.parametrize("family", _FAMILIES)
def test_constants_with_nan_infinities_and_halves_fold_to_what_compiled_code_computes(family: str) -> None:
    _, expected = _FAMILIES[family]
    np.testing.assert_array_equal(_folded()[family], expected)


def test_sorts_of_constants_with_nan_fold_to_what_compiled_code_computes() -> None:
    net, x = Net(), tensor("x", 1)
    row = relax.const(np.array([1, np.nan, -np.inf, 0, np.inf], np.float32))

    def body() -> Expr:
        return net.emit("add", op.add(x, net.emit("sort", op.sort(row, 0))))

    mod = fold_constants(define_sorts(net.module([x], body)))
    np.testing.assert_array_equal(run(mod, np.zeros(1, np.float32)), [-np.inf, 0, 1, np.inf, np.nan])


def test_maxima_of_pools_stay_calls() -> None:
    net, x = Net(), tensor("x", 1)
    row = relax.const(np.full((1, 1, 4, 4), -np.inf, np.float32))

    def body() -> Expr:
        return net.emit("add", op.add(x, net.emit("pool", op.nn.max_pool2d(row, (2, 2), (2, 2)))))

    assert operators(fold_constants(net.module([x], body))["main"]) == ["nn.max_pool2d", "add"]


def test_extrema_of_infinities_fold_to_infinities_and_their_places_stay_calls() -> None:
    net, x = Net(), tensor("x", 1)
    row = relax.const(np.full((1, 9), -np.inf, np.float32))

    def body() -> Expr:
        most = net.emit("max", op.max(row, 1))
        place = net.emit("astype", op.astype(net.emit("argmax", op.argmax(row, 1)), "float32"))
        return net.emit("sub", op.subtract(net.emit("add", op.add(x, most)), place))

    folded = fold_constants(net.module([x], body))["main"]
    assert sorted(operators(folded)) == ["add", "argmax", "astype", "subtract"]
    add = next(b.value for b in bindings_of(folded) if b.value.op.name == "relax.add")
    assert add.args[1].value.numpy() == -np.inf


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int64", "bool"])
def test_moves_and_selections_fold_to_the_same_elements(dtype: str) -> None:
    values = np.arange(-6, 6).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype).reshape(3, 4)
    if dtype.endswith(("float32", "float16")):
        values[0, 0] = np.nan
    net, x = Net(), tensor("x", 1, 4, 3, dtype=dtype)
    stored, other = relax.const(values, dtype), relax.const(values[0, 1], dtype)

    def body() -> Expr:
        nan = net.emit("nan", op.isnan(stored)) if "float" in dtype else relax.const(values == values[1, 2])
        kept = net.emit("kept", op.where(nan, other, stored))
        turned = net.emit("turned", op.permute_dims(net.emit("flat", op.reshape(kept, (2, 3, 2))), (1, 2, 0)))
        squeezed = net.emit("squeezed", op.reshape(net.emit("wide", op.expand_dims(turned, 0)), (1, 4, 3)))
        return net.emit("equal", op.equal(x, squeezed))

    folded = fold_constants(net.module([x], body))
    (equal,) = [b.value for b in bindings_of(folded["main"]) if hasattr(b.value, "op")]
    replaced = np.isnan(values.astype(np.float32)) if "float" in dtype else values == values[1, 2]
    expected = np.where(replaced, values[0, 1], values).reshape(2, 3, 2).transpose(1, 2, 0).reshape(1, 4, 3)
    actual = equal.args[1].value.numpy()
    assert actual.tobytes() == expected.tobytes()


def test_moves_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = Net(), tensor("x", 2, 4)
    stored = net.const(8)
    monkeypatch.delattr(tvm, "compile")
    mod = net.module([x], lambda: net.emit("add", op.add(x, net.emit("moved", op.reshape(stored, (2, 4))))))
    assert operators(fold_constants(mod)["main"]) == ["add"]


def test_a_reshape_to_a_size_of_run_time_is_left() -> None:
    net, size = Net(), tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((size, 2), "float32"))
    stored = net.const(8)
    mod = net.module([x], lambda: net.emit("moved", op.reshape(stored, (size, 2))))
    assert operators(fold_constants(mod)["main"]) == ["reshape"]
