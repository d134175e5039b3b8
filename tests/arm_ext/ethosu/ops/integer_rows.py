# SPDX-License-Identifier: Apache-2.0
"""Rows of the operator table mostly for Ethos-U85: integers, bools, gather, scatter, run-time weights."""

import onnx

from tests.arm_ext.ethosu.ops.integer_cases import (
    Build,
    bits_shifted,
    cast,
    choice,
    convolved,
    joined_truths,
    on_integers,
    scatter,
    shift,
    take,
)
from tests.arm_ext.ethosu.ops.one_operator import OneOperator, weights
from tests.arm_ext.ethosu.ops.row import U85, Row


def compared(op: str) -> Build:
    """A selection by the comparison of two tensors."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        x, y = one.data(1, 5, 17), one.data(1, 5, 17)
        return one.model(one.quantized(one.node("Where", one.node(op, x, y), x, y)))

    return build


def divided_by(number: int) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        return one.model(
            one.node("Div", one.integers("int32", 1, 5, 7), one.constant(number, "int32")), dtype="int32"
        )

    return build


def gathered() -> onnx.ModelProto:
    """A gather of rows by indices that are computed at run time."""
    one = OneOperator()
    ids = one.node("ArgMax", one.data(3, 5, 9), axis=2, keepdims=0)
    return one.model(one.quantized(one.node("Gather", one.weight(weights((9, 6))), ids, axis=0), 0.01, 0))


_BY = tuple(range(9))
_NO_SUCH = "the accelerator has no such operator"

INTEGER_ROWS: dict[str, Row] = {
    "conv2d, run-time weights": Row(
        ("run_time_conv2d",), {
            "one pixel": convolved((1, 2, 1, 1), (1, 2, 1, 1)),
            "tails": convolved((1, 17, 7, 9), (31, 17, 3, 3), pads=[1] * 4, strides=[2, 1]),
            "batch": convolved((3, 5, 4, 4), (7, 5, 3, 3), pads=[1] * 4),
            "uneven padding": convolved((1, 4, 5, 6), (3, 4, 2, 3), pads=[0, 1, 2, 1]),
            "dilated 3, stride 4": convolved((1, 3, 17, 9), (5, 3, 3, 3), dilations=[3, 3], strides=[4, 4]),
            "of 16 bits": convolved((1, 3, 5, 4), (5, 3, 3, 2), "int16"),
        }, U85, {"one pixel": convolved((1, 2, 1, 1), (1, 2, 1, 1))}, "its weights are computed at run time",
    ),
    "cast": Row(("astype",), {"8 to 16": cast("int16"), "8 to 32": cast("int32"), "16 to 32": cast("int32", "int16")}),
    "narrowing cast, bool": Row(
        ("astype",), {"to 8": cast("int8", "int32"), "to bool": cast("bool"), "of bool": cast("int8", "bool")}, U85,
        {"to 8": cast("int8", "int32")}, "it narrows integers, or casts them to bool",
    ),
    "compare, select": Row(
        ("greater", "less_equal", "equal", "where"),
        {op: compared(op) for op in ("Greater", "LessOrEqual", "Equal")} | {"constants": choice("Where")}, U85,
        {"constants": choice("Where")}, _NO_SUCH,
    ),
    "logical": Row(
        ("logical_and", "logical_or", "logical_xor", "logical_not"),
        {op: on_integers(op, *["bool"] * n, out="bool") for op, n in (("And", 2), ("Or", 2), ("Xor", 2), ("Not", 1))},
        U85, {"And": on_integers("And", "bool", "bool", out="bool")}, _NO_SUCH,
    ),
    "bitwise": Row(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), {
            "and": on_integers("BitwiseAnd", "int8", "int8", out="int8", opset=18),
            "or of a column": on_integers("BitwiseOr", "int16", "int16", out="int16", opset=18, shape=(31, 1)),
            "xor": on_integers("BitwiseXor", "int32", "int32", out="int32", opset=18),
            "not": on_integers("BitwiseNot", "int8", out="int8", opset=18, shape=(2, 3, 4, 5, 6)),
            "not of 32 bits": on_integers("BitwiseNot", "int32", out="int32", opset=18),
        }, U85, {"and": on_integers("BitwiseAnd", "int8", "int8", out="int8", opset=18)}, _NO_SUCH,
    ),
    "shift left": Row(
        ("left_shift",), {"by nothing": shift("LEFT", 0), "by 31": shift("LEFT", 31), "by row": shift("LEFT", _BY)}
    ),
    "shift right": Row(
        ("right_shift",), {"by 1": shift("RIGHT", 1), "by 31": shift("RIGHT", 31), "by row": shift("RIGHT", _BY)}, U85,
        {"by 1": shift("RIGHT", 1)}, "the accelerator rounds the result of right shifts",
    ),
    "lsr": Row(
        ("logical_right_shift",), {f"by {n}": bits_shifted(n) for n in (1, 31)} | {"by row": bits_shifted(_BY)}, U85,
        {"by 1": bits_shifted(1)}, _NO_SUCH,
    ),
    "intdiv": Row(
        ("divide",), {
            "by 7": divided_by(7), "by -7": divided_by(-7), "by the greatest": divided_by(2**31 - 1),
            "by the least": divided_by(-(2**31)),
        }, U85, {"by 7": divided_by(7)}, _NO_SUCH,
    ),
    "any, all": Row(
        ("max", "min"), {
            "any": joined_truths("ReduceMax", 1), "all": joined_truths("ReduceMin", -1, keepdims=0),
            "any of a row": joined_truths("ReduceMax", 0, shape=(31,)),
            "all along two": joined_truths("ReduceMin", 0, 3, shape=(2, 3, 4, 5, 6)),
        }, U85, {"all": joined_truths("ReduceMin", 1)}, "the accelerator reduces only integers",
    ),
    "scatter": Row(
        ("scatter_nd", "scatter_elements"), {
            "rows": scatter("ScatterND", (9, 7, 6), [[3], [1], [-1]], (3, 7, 6)),
            "every row": scatter("ScatterND", (3, 31), [[2], [0], [1]], (3, 31)),
            "one element": scatter("ScatterND", (1, 1), [[0, 0]], (1,)),
            "elements of 16 bits": scatter("ScatterND", (5, 7), [[3, 1], [-1, -2], [0, 0]], (3,), "int16"),
            "along columns": scatter("ScatterElements", (3, 7), [[6, 0], [1, 2], [3, -3]], (3, 2), axis=1),
            "along rows": scatter("ScatterElements", (5, 3), [[4, 0, -1], [1, 2, 3]], (2, 3), axis=0),
        }, U85, {"rows": scatter("ScatterND", (9, 6), [[3], [1]], (2, 6))}, _NO_SUCH,
    ),
    "gather": Row(
        ("take",), {"scattered": take([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]), "run time": gathered}, U85,
        {"scattered": take([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])}, "its indices are not constants in few runs",
    ),
}  # fmt: skip
"""Rows by the operators' names in the table."""
