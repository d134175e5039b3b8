# SPDX-License-Identifier: Apache-2.0
"""Elementwise torch operators that TVM's importer lacks or computes differently, by `frontends.ops`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tvm import relax
from tvm.ir import Expr

from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import activations, arithmetic, maths
from arm_ext.frontends.torch.promote import dtype_name

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_Arguments = dict[str, Any]
Convert = Callable[["ExportedProgramImporter", torch.fx.Node, _Arguments], Expr]


def by(function: Callable[..., Value], *numbers: str, **renamed: str) -> Convert:
    """Return a converter that computes a node by a function of `frontends.ops`.

    Args:
        function: Function of values, and of numbers by the names that the operator has for them.
        numbers: Names of the operator's arguments that are numbers of the function; all others are values, of the
            first tensor's dtype.
        renamed: Name of a number of the function → the operator's name for it.
    """
    names = {**dict(zip(numbers, numbers, strict=True)), **renamed}

    def convert(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
        graph = Graph(importer.block_builder)
        given = [a[name] for name in ("self", "other", "exponent") if name in a]
        like = graph.hold(next(x for x in given if isinstance(x, Expr)))
        values = [graph.hold(x) if isinstance(x, Expr) else like.number(x) for x in given]
        return function(*values, **{name: a[argument] for name, argument in names.items()}).full

    return convert


def _real(function: Callable[..., Value]) -> Convert:
    """Return a converter that casts operands to the dtype of the result first."""

    def convert(importer: "ExportedProgramImporter", node: torch.fx.Node, a: _Arguments) -> Expr:
        graph, dtype = Graph(importer.block_builder), dtype_name(node.meta["val"].dtype)
        values = [arithmetic.cast(graph.hold(a[name]), dtype) for name in ("self", "other")]
        return function(*values).full

    return convert


def _gelu(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
    function = activations.gelu_tanh if a["approximate"] == "tanh" else activations.gelu
    return function(Graph(importer.block_builder).hold(a["self"])).full


def power(importer: "ExportedProgramImporter", node: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert a power, of which one operand may be a number."""
    graph, dtype = Graph(importer.block_builder), dtype_name(node.meta["val"].dtype)
    values = [
        graph.hold(relax.const(x, dtype))
        if isinstance(x, int | float)
        else arithmetic.cast(graph.hold(x), dtype)
        for x in (a["self"], a["exponent"])
    ]
    return maths.power(*values).full


_SHIFTS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(("__lshift__", "bitwise_left_shift"), lambda x, count: x << count),
    **dict.fromkeys(("__rshift__", "bitwise_right_shift"), lambda x, count: x >> count),
}

FUNCTIONS: dict[str, Convert] = {
    **{
        f"{name}.default": by(getattr(maths, name))
        for name in (
            "acos acosh asin asinh atan atan2 atanh cosh erfc exp2 expm1 log1p sinh".split()  # noqa: SIM905 - names
        )
    },
    **{
        f"{name}.{kind}": by(function)
        for name, function in _SHIFTS.items()
        for kind in ("Scalar", "Tensor", "Tensor_Scalar")
    },
    **dict.fromkeys(("pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor"), power),
    "bitwise_xor.Tensor": by(lambda x, y: x ^ y),
    "celu.default": by(activations.celu, "alpha"),
    "bitwise_not.default": by(lambda x: ~x),
    "elu.default": by(activations.elu, "alpha", "scale", "input_scale"),
    "gelu.default": _gelu,
    "hardtanh.default": by(arithmetic.clip, low="min_val", high="max_val"),
    "hypot.default": _real(maths.hypot),
    "isfinite.default": by(arithmetic.is_finite),
    "isinf.default": by(arithmetic.is_infinite),
    "isnan.default": by(arithmetic.is_nan),
    "leaky_relu.default": by(activations.leaky_relu, alpha="negative_slope"),
    "signbit.default": by(arithmetic.sign_bit),
    "softplus.default": by(activations.softplus, "beta", "threshold"),
}
"""Operator → its converter."""
