# SPDX-License-Identifier: Apache-2.0
"""Composition of tables: a function of two tables of the same tensor becomes one table, and so does a table of a table.

    multiply(q, sigmoid_table[q])    →    table[q]    table[v] = multiply(v, sigmoid_table[v]), for each of 256 values
    second[first[q]]                 →    table[q]    table[v] = second[first[v]]

Exact: the entries are what the two steps compute, with the rounding between them. So a SiLU whose sigmoid is quantised
by itself is one look-up, and so are hard-swish, gelu and their like in pieces.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from relay_passes.integerize.context import Context
from relay_passes.integerize.numerics import Array
from relay_passes.integerize.values import Quantization, Quantized, Table
from relay_passes.ir.sources import Names, union

BYTES = ("int8", "uint8")
"""Types whose functions are tables."""


@dataclass(frozen=True)
class Origin:
    """A tensor that two others are tables of.

    Attributes:
        tensor: The 8-bit tensor that both are computed from.
        entries: For each of the two tensors, its value for each value of `tensor`, in ascending order.
        quantizations: Quantisations of the two tensors.
        names: Source nodes of the two tables.
    """

    tensor: Quantized
    entries: tuple[Array, Array]
    quantizations: tuple[Quantization, Quantization]
    names: Names


def common_origin(context: Context, a: Quantized, b: Quantized) -> Origin | None:
    """Return a tensor of which both tensors are tables, the closest ancestor of the first; None if there is none."""
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


def _lineage(context: Context, tensor: Quantized) -> Iterator[Table]:
    """Yield a tensor as a table of itself, then of its ancestors, each of which the one before is a table of."""
    if tensor.dtype not in BYTES or tensor.constant is not None:
        return
    info = np.iinfo(tensor.dtype)
    found = Table(tensor, np.arange(info.min, info.max + 1).astype(tensor.dtype), tensor.names)
    yield found
    while (before := context.tables.get(found.leaf.value)) is not None:
        found = Table(before.leaf, after(before, found.entries), union((before.names, found.names)))
        yield found


def after(before: Table, entries: Array) -> Array:
    """Return the table of a table's leaf that looks up `entries` by its results."""
    at = before.entries.astype(np.int64) - np.iinfo(before.entries.dtype).min
    return np.asarray(entries[at])
