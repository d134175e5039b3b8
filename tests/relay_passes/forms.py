# SPDX-License-Identifier: Apache-2.0
"""Decomposed forms of operators: written as expressions, or imported from ONNX; and what a rule makes of them."""

import contextlib
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.canonicalize.fold_constants import fold_constants
from relay_passes.canonicalize.recognize_kernels import recognize_kernels
from relay_passes.ir.sources import bindings_of, name_bindings, unnamed_calls
from relay_passes.rewriter.engine import apply_rule, explain
from relay_passes.rewriter.rule import Rule
from tests.relay_passes.graphs import Net, inputs_of, operators, run, tensor

EPS = float(np.finfo(np.float32).eps)


class Ops:
    """Emits operators by name: `ops.add(x, 1.0)`, `ops("nn.relu", x)`. Each call is named after its operator."""

    def __init__(self, net: Net) -> None:
        self._net = net

    def __getattr__(self, name: str) -> Callable[..., relax.Expr]:
        return lambda *args, **attrs: self(name, *args, **attrs)

    def __call__(self, name: str, *args: Any, **attrs: Any) -> relax.Expr:
        operator: Any = relax.op
        for part in name.split("."):
            operator = getattr(operator, part)
        plain = name in ("clip", "nn.pad")
        operands = [
            self._operand(arg) if isinstance(arg, float | np.ndarray) and not plain else arg for arg in args
        ]
        return self._net.emit(name, operator(*operands, **attrs))

    @staticmethod
    def _operand(value: float | np.ndarray) -> relax.Expr:
        return relax.const(np.asarray(value, "float32"))


def form(write: Callable[..., relax.Expr], *shapes: Sequence[int], dtype: str = "float32") -> tvm.IRModule:
    """The module of `write(ops, x, …)`, with an input a shape."""
    net = Net()
    inputs = [tensor(f"x{i}", *shape, dtype=dtype) for i, shape in enumerate(shapes)]
    return net.module(inputs, lambda: write(Ops(net), *inputs))


def imported(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int],
    opset: int,
    weights: dict[str, np.ndarray] | None = None,
) -> tvm.IRModule:
    """An ONNX graph from "x" to "y" as TVM imports it, with what depends on constants alone folded."""
    initializers = [numpy_helper.from_array(np.asarray(w), name) for name, w in (weights or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "form",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        initializers,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mod = from_onnx(proto, opset=opset)
    mod = relax.transform.CanonicalizeBindings()(mod)
    names = {b.var: str(b.var.name) for b in bindings_of(mod["main"])}
    mod["main"] = name_bindings(mod["main"], names)
    return recognize_kernels(fold_constants(mod))


def check_rewrite(
    mod: tvm.IRModule, rule: Rule, after: Sequence[str], tolerance: float, low: float = -8.0
) -> None:
    """Assert that `rule` leaves the operators `after`, and the values up to `tolerance` · max(1, |value|).

    Inputs are in [`low`, 8].
    """
    rewritten, explanation = apply_rule(mod, rule)
    assert operators(rewritten["main"]) == list(after)
    assert explanation.applied
    assert unnamed_calls(rewritten) == []
    tvm.ir.assert_structural_equal(rewritten["main"].ret_ty, mod["main"].ret_ty)
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(low, 8.0, x.shape).astype(x.dtype) for x in inputs_of(mod)]
    expected, actual = run(mod, *inputs), run(rewritten, *inputs)
    assert (np.abs(actual - expected) <= tolerance * np.maximum(1, np.abs(expected))).all()


def refusal(mod: tvm.IRModule, rule: Rule) -> str:
    """The one reason why `rule` does not apply anywhere in `mod`, without the nodes and what it would cost."""
    explanation = explain(mod, rule)
    assert explanation.applied == ()
    (rejection,) = explanation.rejected
    return str(replace(rejection, hint="")).partition(": ")[2]
