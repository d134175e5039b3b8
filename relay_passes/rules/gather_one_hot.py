# SPDX-License-Identifier: Apache-2.0
"""A one-hot tensor times a table is a gather of the table's rows.

    matmul(astype(equal(i, [0 … n-1])), W)    →    take([0; W; 0], i + 1, clipped)        i of shape […, 1], W of [n, C]

JAX writes embeddings of small vocabularies in this form. An index out of range selects a row of zeros, as in the
product: i + 1 is clipped to the rows of zeros at both ends of the table.

Exact except for the sign of a zero: the product sums one element of W and zeros. W must be finite, because with an
infinity or NaN in W the product gives NaN for every row.
Quantised: applies to float products that `integerize` left.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.ir.shapes import shape_of, static_shape
from relay_passes.rewriter.patterns import either_order
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_index, _places, _table = wildcard(), is_const(), is_const()
_equal = either_order(is_op("relax.equal"), _index, _places)
_root = is_op("relax.matmul")(is_op("relax.astype")(_equal), _table)

_MATRIX = 2
_INTEGERS = ("int32", "int64")


def check(match: Match) -> Match | Diagnostic:
    """Check that indices are compared with all row numbers of a finite matrix, whose dtype the product has."""
    table, places = match.constant("table"), match.constant("places")
    index, dims = match.operands["index"], static_shape(match.values["equal"])
    if table.ndim != _MATRIX or dims is None or len(dims) < _MATRIX:
        return match.reject("table or one-hot tensor is no matrix", _MATRIX, table.ndim)
    if str(index.ty.dtype) not in _INTEGERS:
        return match.reject("indices are no integers", ", ".join(_INTEGERS), str(index.ty.dtype))
    if places.size != len(table) or (places.reshape(-1) != np.arange(len(table))).any():
        return match.reject("indices are not compared with all rows in order", len(table), places.size)
    if static_shape(index) != (*dims[:-1], 1):
        return match.reject("indices are broadcast", (*dims[:-1], 1), static_shape(index))
    if str(match.values["root"].ty.dtype) != str(table.dtype):
        return match.reject(
            "the product's dtype is not the table's", table.dtype, str(match.values["root"].ty.dtype)
        )
    if not np.isfinite(table).all():
        return match.reject("the table has values that are not finite")
    return match


def rewrite(match: Match) -> Expr:
    """Return the gather from the table, padded with rows of zeros."""
    table, index = match.constant("table"), match.operands["index"]
    rows = tensor_const(np.pad(table, [(1, 1), (0, 0)]))
    places = relax.op.reshape(index, shape_of(index)[:-1])
    places = relax.op.add(places, tensor_const(np.ones((), str(index.ty.dtype))))
    return relax.op.take(rows, places, axis=0, mode="clip")


RULE = Rule(
    name="gather_one_hot",
    pattern=_root,
    parts={"index": _index, "places": _places, "table": _table, "equal": _equal, "root": _root},
    check=check,
    rewrite=rewrite,
)
