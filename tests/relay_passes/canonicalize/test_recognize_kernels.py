# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax, te, tirx, topi

from relay_passes.canonicalize.recognize_kernels import recognize_kernels
from relay_passes.ir.sources import bindings_of, name_bindings, sources_of, unnamed_calls
from tests.relay_passes.forms import imported
from tests.relay_passes.graphs import inputs_of, operators, run, tensor

Compute = Callable[..., te.Tensor]


def _written(compute: Compute, *arguments: object, inputs: tuple[relax.Var, ...]) -> tvm.IRModule:
    """A function that calls the kernel that `compute` gives, as importers write it; the call is named "node"."""
    bb = relax.BlockBuilder()
    with bb.function("main", list(inputs)):
        with bb.dataflow():
            out = bb.emit_output(bb.call_te(compute, *arguments))
        bb.emit_func_output(out)
    mod = bb.finalize()
    mod["main"] = name_bindings(mod["main"], {b.var: "node" for b in bindings_of(mod["main"])})
    return mod


X, Y, ROW, IMAGE = (
    tensor("x", 7, 9),
    tensor("y", 7, 9),
    relax.const(np.linspace(-1, 1, 9, dtype="float32")),
    None,
)
IMAGE = tensor("x", 1, 3, 9, 7)
KERNELS: dict[str, tuple[tvm.IRModule, str]] = {
    "maximum": (_written(topi.maximum, X, Y, inputs=(X, Y)), "maximum"),
    "minimum": (_written(topi.minimum, X, Y, inputs=(X, Y)), "minimum"),
    "maximum with a constant": (_written(topi.maximum, X, ROW, inputs=(X,)), "maximum"),
    "minimum with a constant first": (_written(topi.minimum, ROW, X, inputs=(X,)), "minimum"),
    "maximum with a number": (_written(topi.maximum, X, 0.5, inputs=(X,)), "maximum"),
    "minimum with a number": (_written(topi.minimum, X, -0.5, inputs=(X,)), "minimum"),
    "pad": (_written(topi.nn.pad, IMAGE, [0, 0, 1, 2], [0, 0, 3, 0], 0.5, inputs=(IMAGE,)), "nn.pad"),
    "tile": (_written(topi.tile, IMAGE, [1, 2, 1, 3], inputs=(IMAGE,)), "tile"),
    "pad after only": (_written(topi.nn.pad, X, [0, 0], [1, 2], 0.0, inputs=(X,)), "nn.pad"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_values_and_names_are_kept(name: str) -> None:
    mod, operator = KERNELS[name]
    after = recognize_kernels(mod)
    assert operators(after["main"]) == [operator]
    assert unnamed_calls(after) == []
    assert sources_of(bindings_of(after["main"])[0].value) == ("node",)
    tvm.ir.assert_structural_equal(after["main"].ret_ty, mod["main"].ret_ty)
    inputs = inputs_of(mod)
    np.testing.assert_array_equal(run(after, *inputs), run(mod, *inputs))


ONNX = {
    "Clip": (helper.make_node("Clip", ["x"], ["y"], min=0.0, max=6.0), 6, {}),
    "Pad": (
        helper.make_node("Pad", ["x", "widths"], ["y"]),
        13,
        {"widths": np.array([0, 0, 1, 0, 0, 0, 2, 3])},
    ),
    "Tile": (helper.make_node("Tile", ["x", "repeats"], ["y"]), 13, {"repeats": np.array([1, 2, 1, 3])}),
}


@pytest.mark.parametrize("name", ONNX)
def test_importers_leave_no_kernel(name: str) -> None:
    node, opset, weights = ONNX[name]
    mod = imported([node], (1, 3, 9, 7), opset, weights)
    assert "call_tir" not in operators(mod["main"])


def maximum(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """No maximum, whatever its name."""
    return te.compute(x.shape, lambda *i: te.max_value("float32") - tirx.max(x(*i), y(*i)), name="maximum")


def _edge(x: te.Tensor) -> te.Tensor:
    return topi.nn.mirror_pad(x, [1, 1], [1, 1], "SYMMETRIC")


def _beside(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    return topi.concatenate([topi.reshape(x, (63,)), y])


SHORT = tensor("y", 5)
KEPT: dict[str, tvm.IRModule] = {
    "operands that do not broadcast": _written(_beside, X, SHORT, inputs=(X, SHORT)),
    "another operator": _written(topi.add, X, Y, inputs=(X, Y)),
    "another computation under the name": _written(maximum, X, Y, inputs=(X, Y)),
    "three operands": _written(lambda x, y, z: topi.maximum(topi.maximum(x, y), z), X, Y, ROW, inputs=(X, Y)),
    "a pad that mirrors": _written(_edge, X, inputs=(X,)),
    "a pad of what depends on two tensors": _written(
        lambda x, y: topi.nn.pad(topi.add(x, y), [1, 1], [1, 1], 0.0), X, Y, inputs=(X, Y)
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_kernels_are_kept(name: str) -> None:
    tvm.ir.assert_structural_equal(recognize_kernels(KEPT[name]), KEPT[name])


def test_a_symbolic_pad_is_kept() -> None:
    rows = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((rows, 9), "float32"))
    mod = _written(topi.nn.pad, x, [1, 0], [1, 0], 0.0, inputs=(x,))
    tvm.ir.assert_structural_equal(recognize_kernels(mod), mod)
