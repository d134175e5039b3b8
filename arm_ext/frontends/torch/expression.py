# SPDX-License-Identifier: Apache-2.0
"""A check that the text of a size is arithmetic, because torch's sympy evaluates it as Python."""

import ast
import re

_LONGEST = 10_000
_SYMBOL = re.compile(r"(s|u|zf|zuf)\d{1,9}")
_NUMBER = re.compile(r"[-+]?\d{1,40}(\.\d{1,40})?(e[-+]?\d{1,3})?")
# Maximum exponent: a larger one gives a number larger than any size, and takes long to compute.
_MAX_POWER = 64
_ASSUMPTIONS = """
    commutative even extended_real finite integer negative nonnegative nonzero odd positive real zero
""".split()  # noqa: SIM905 - a list of words
# Functions that sympy and torch.utils._sympy.functions write sizes with.
_FUNCTIONS = """
    Abs Add And Eq Equality ExprCondPair Ge GreaterThan Gt ITE Le LessThan Lt Max Min Mod Mul Ne Not Or Piecewise
    Rational StrictGreaterThan StrictLessThan Unequality ceiling floor
    CeilDiv CeilToInt CleanDiv FloatTrueDiv FloorDiv FloorToInt Identity IntTrueDiv IsNonOverlappingAndDenseIndicator
    ModularIndexing PythonMod RoundDecimal RoundToInt ToFloat TruncToFloat TruncToInt Where
""".split()  # noqa: SIM905 - a list of words
_POWERS = frozenset({"Pow", "PowByNatural", "FloatPow"})
_TRUTHS = frozenset({"true", "false", "True", "False"})


def is_expression(text: str) -> bool:
    """Whether a text consists of numbers, symbols of sizes and functions of these only."""
    if len(text) > _LONGEST:
        return False
    try:
        return _is_value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_value(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() | float() as value):
            return abs(value) < 2**64
        case ast.Name(id=name):
            return name in _TRUTHS or _SYMBOL.fullmatch(name) is not None
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
            return _is_value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _is_base(left) and _is_power(right)
        case ast.BinOp(
            left=left,
            op=ast.Add()
            | ast.Sub()
            | ast.Mult()
            | ast.Div()
            | ast.FloorDiv()
            | ast.Mod()
            | ast.BitAnd()
            | ast.BitOr(),
            right=right,
        ):
            return _is_value(left) and _is_value(right)
        case ast.Compare(
            left=left, ops=[ast.Eq() | ast.NotEq() | ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]
        ):
            return _is_value(left) and _is_value(node.comparators[0])
        case ast.Tuple(elts=parts):  # of Piecewise
            return all(map(_is_value, parts))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            return _is_call(name, args, keywords)
    return False


def _is_call(name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    match name, args:
        case "Symbol", [ast.Constant(value=str() as symbol)]:
            return _SYMBOL.fullmatch(symbol) is not None and all(map(_is_assumption, keywords))
        case "Integer", [
            ast.Constant(value=int()) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int()))
        ]:
            return not keywords and _is_value(args[0])
        case "Float", [ast.Constant(value=str() as number)]:
            return _NUMBER.fullmatch(number) is not None and all(
                keyword.arg == "precision"
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value == 53
                for keyword in keywords
            )
    if keywords:
        return False
    if name in _POWERS:
        return len(args) == 2 and _is_base(args[0]) and _is_power(args[1])
    return name in _FUNCTIONS and all(map(_is_value, args))


def _is_base(node: ast.expr) -> bool:
    """Whether an expression may be the base of a power; nested powers could exhaust memory."""
    return _is_value(node) and not any(
        isinstance(part, ast.Pow) or (isinstance(part, ast.Name) and part.id in _POWERS)
        for part in ast.walk(node)
    )


def _is_power(node: ast.expr) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_power(operand)
        case ast.Call(func=ast.Name(id="Integer"), args=[inner], keywords=[]):
            return _is_power(inner)
        case ast.Call(func=ast.Name(id="Rational"), args=[one, two], keywords=[]):
            return _is_power(one) and _is_power(two)
        case ast.Constant(value=int() as value):
            return abs(value) <= _MAX_POWER
    return False


def _is_assumption(keyword: ast.keyword) -> bool:
    return (
        keyword.arg in _ASSUMPTIONS
        and isinstance(keyword.value, ast.Constant)
        and type(keyword.value.value) is bool
    )
