# SPDX-License-Identifier: Apache-2.0
"""Composition of tables: a function of two tables of one tensor, or a table of a table, becomes a single table.

    multiply(q, sigmoid_table[q])    →    table[q]    table[v] = multiply(v, sigmoid_table[v]), for each of 256 values
    second[first[q]]                 →    table[q]    table[v] = second[first[v]]

Exact: the entries are computed by both steps, with the rounding between them. So a SiLU whose sigmoid is quantised
separately becomes one look-up, and so do decomposed hard-swish and gelu.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from relay_passes.integerize.context import Context
from relay_passes.integerize.numerics import Array, Quantization
from relay_passes.integerize.values import Quantized, TableLookup
from relay_passes.ir.sources import Names, union

BYTES = ("int8", "uint8")
"""Types whose functions are tables."""


@dataclass(frozen=True)
class Origin:
    """A tensor from which two other tensors are computed by tables.

    Attributes:
        tensor: The 8-bit tensor.
        entries: For each of the two tensors, its value for each value of `tensor`, in ascending order.
        quantizations: Quantisations of the two tensors.
        names: Source nodes of the two tables.
    """

    tensor: Quantized
    entries: tuple[Array, Array]
    quantizations: tuple[Quantization, Quantization]
    names: Names


def common_origin(context: Context, a: Quantized, b: Quantized) -> Origin | None:
    """Return the closest ancestor of a from which both a and b are computed by tables; None if there is none."""
    first, second = a.per_tensor, b.per_tensor
    if first is None or second is None:
        return None
    of_b = list(_lineage(context, b))
    for own in _lineage(context, a):
        for other in of_b:
            if own.leaf.value == other.leaf.value:
                entries = own.entries, other.entries
                return Origin(own.leaf, entries, (first, second), union((own.names, other.names)))
    return None


def _lineage(context: Context, tensor: Quantized) -> Iterator[TableLookup]:
    """Yield a tensor as a table of itself, then of each ancestor from which tables compute it."""
    if tensor.dtype not in BYTES or tensor.constant is not None:
        return
    info = np.iinfo(tensor.dtype)
    found = TableLookup(tensor, np.arange(info.min, info.max + 1).astype(tensor.dtype), tensor.names)
    yield found
    while (before := context.tables.get(found.leaf.value)) is not None:
        found = TableLookup(before.leaf, after(before, found.entries), union((before.names, found.names)))
        yield found


def after(before: TableLookup, entries: Array) -> Array:
    """Return the composed table of `before`'s leaf, which looks the results of `before` up in `entries`."""
    at = before.entries.astype(np.int64) - np.iinfo(before.entries.dtype).min
    return np.asarray(entries[at])
