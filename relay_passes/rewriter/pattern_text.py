# SPDX-License-Identifier: Apache-2.0
"""Descriptions of patterns and values for rejections and messages."""

from collections.abc import Iterable, Mapping

from tvm.ir import Call, Expr, GenericConst, GlobalVar, Op, Tuple, TupleGetItem, Var
from tvm.relax.dpl import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    NotPattern,
    OrPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    WildcardPattern,
)

CONSTRAINTS = (AttrPattern, DataTypePattern, ShapePattern, TypePattern)


def expected(pattern: DFPattern, names: Mapping[DFPattern, str]) -> tuple[str, ...]:
    """Return descriptions of `pattern`, one per alternative, such as "relax.nn.relu" or "a constant for scale".

    Args:
        pattern: Any pattern; operands of a call are not described.
        names: Names of the parts of a rule.
    """
    match pattern:
        case OrPattern():
            return tuple(dict.fromkeys(expected(pattern.left, names) + expected(pattern.right, names)))
        case CallPattern():
            return expected(pattern.op, names)
        case NotPattern() if isinstance(pattern.reject, NotPattern):
            return expected(pattern.reject.reject, names)
        case ConstantPattern():
            return (f"a constant for {names[pattern]}" if pattern in names else "a constant",)
    return (_single(pattern, names),)


def either(texts: Iterable[str]) -> str:
    """Join alternatives: "a, b or c"."""
    *first, last = texts
    return f"{', '.join(first)} or {last}" if first else last


def _single(pattern: DFPattern, names: Mapping[DFPattern, str]) -> str:
    def inner(of: DFPattern) -> str:
        return either(expected(of, names))

    match pattern:
        case ExprPattern():
            return found(pattern.expr)
        case AndPattern():
            return f"{inner(pattern.left)} and {inner(pattern.right)}"
        case NotPattern():
            return f"anything but {inner(pattern.reject)}"
        case TuplePattern():
            return f"a tuple of {len(pattern.fields)}"
        case TupleGetItemPattern():
            which = "an item" if pattern.index < 0 else f"item {pattern.index}"
            return f"{which} of {inner(pattern.tuple)}"
        case WildcardPattern():
            return names.get(pattern, "anything")
        case _ if isinstance(pattern, CONSTRAINTS):
            what = () if isinstance(pattern.pattern, WildcardPattern) else (inner(pattern.pattern),)
            return " with ".join((*what, _wanted(pattern)))
    return str(pattern)


def found(value: Expr) -> str:
    """Describe a value, such as "relax.tanh", "the constant 0.5" or "input x"."""
    match value:
        case Call():
            return operator(value)
        case Op():
            return str(value.name)
        case GenericConst():
            array = value.value.numpy()
            return (
                f"the constant {array.item():g}"
                if array.size == 1
                else f"a constant {array.dtype}{list(array.shape)}"
            )
        case Var():
            return f"input {value.name}"
        case TupleGetItem():
            return f"item {value.index} of a tuple"
        case Tuple():
            return f"a tuple of {len(value.fields)}"
    return str(value)


def operator(call: Call) -> str:
    """Return the name of the operator or function that is called."""
    callee = next((e for e in (*call.args, call.op) if isinstance(e, GlobalVar)), call.op)
    return str(getattr(callee, "name", None) or getattr(callee, "name_hint", callee))


def constraint(pattern: DFPattern, value: Expr) -> tuple[str, str]:
    """Return (dtype, shape, type or attribute that a constraint requires, the same property of `value`)."""
    match pattern:
        case DataTypePattern():
            return _wanted(pattern), str(getattr(value.ty, "dtype", value.ty))
        case ShapePattern():
            dims = getattr(value.ty, "shape", None)
            return _wanted(pattern), str(value.ty) if dims is None else f"shape {_dims(dims)}"
        case AttrPattern():
            attrs = getattr(value, "attrs", None)
            have = {name: getattr(attrs, name, "missing") for name, _ in pattern.attrs.items()}
            return _wanted(pattern), ", ".join(f"{name} = {have[name]}" for name in have)
    return _wanted(pattern), str(value.ty)


def _wanted(pattern: DFPattern) -> str:
    match pattern:
        case DataTypePattern():
            return str(pattern.dtype)
        case ShapePattern():
            return f"shape {_dims(pattern.shape)}"
        case AttrPattern():
            return ", ".join(f"{name} = {value}" for name, value in pattern.attrs.items())
    return str(pattern.ty)


def _dims(shape: Iterable[Expr]) -> str:
    return f"[{', '.join(str(getattr(dim, 'value', dim)) for dim in shape)}]"
