# SPDX-License-Identifier: Apache-2.0
"""Ensembles of binary decision trees, in a normal form for all comparisons and treatments of missing values.

Nodes are numbered across all trees. From an inner node i, a row x of the data goes to

    children[i] + (v > thresholds[i])      v = x[f], with (kind, f) = divmod(features[i], columns) and
                                               kind VALUE         x[f]; the comparison is false for NaN
                                               kind NAN_IS_LARGE  x[f], or infinity for a NaN
                                               kind IS_NAN        1 for a NaN, else 0

A leaf is its own child, with an infinite threshold and kind VALUE: further steps do not leave it, so that walks in
several trees can take equally many steps without branches. `depth` steps are taken from every root. Then, for each leaf
i that was reached, row `leaves[i]` of `values` is added to `base` (or combined with it by minimum or maximum). If
`shared` is false, each tree has one target, and `values` has one column. Source: ONNX operator definitions
TreeEnsembleRegressor-3, TreeEnsembleClassifier-3, TreeEnsemble-5 (ai.onnx.ml).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.numerics.routine import Routine, routine_of_loops
from schedules.tir.emit import i64

Array = npt.NDArray[Any]

NAME = "float.tree_ensemble"
"""Value of the routine's attribute "numerics"."""

VALUE, NAN_IS_LARGE, IS_NAN = range(3)
"""Kinds of a node's comparison, see above."""

AGGREGATES = ("sum", "min", "max")

IDENTITY = {"sum": 0.0, "min": float("inf"), "max": float("-inf")}
"""Neutral element of each aggregate."""

_COMBINED = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True)
class Forest:
    """The sizes of an ensemble; its arrays are in `Trees`.

    Attributes:
        columns: Number of features per row.
        targets: Number of results per row.
        depth: Maximum number of steps from a root to a leaf.
        steps: Mean path length over the leaves of each tree, summed over the trees, for estimates. It assumes that
            equally many rows reach each leaf; for trained trees it is within 2 % of the measured paths.
        levels: Sum of the trees' depths, for estimates.
        groups: Number of trees of each target; one number for all trees if `shared`.
        kinds: Number of kinds in use, in the order VALUE, NAN_IS_LARGE, IS_NAN: 1 means VALUE alone.
        shared: Whether a leaf has a value for each target.
        aggregate: One of `AGGREGATES`.
    """

    columns: int
    targets: int
    depth: int
    steps: float
    levels: int
    groups: tuple[int, ...]
    kinds: int
    shared: bool
    aggregate: str = "sum"

    def __post_init__(self) -> None:
        if self.aggregate not in AGGREGATES:
            raise ValueError(f"{self.aggregate} is none of {', '.join(AGGREGATES)}")
        if len(self.groups) != (1 if self.shared else self.targets):
            raise ValueError(f"{len(self.groups)} groups of trees for {self.targets} targets")

    @property
    def trees(self) -> int:
        """Number of trees."""
        return sum(self.groups)

    @property
    def attributes(self) -> dict[str, int | float | str]:
        """The sizes as attributes of a routine; `of` parses them."""
        return {
            "depth": self.depth,
            "steps": float(self.steps),
            "levels": self.levels,
            "groups": ", ".join(map(str, self.groups)),
            "kinds": self.kinds,
            "shared": int(self.shared),
            "aggregate": self.aggregate,
        }

    @classmethod
    def of(cls, attributes: Mapping[str, str], columns: int, targets: int) -> "Forest":
        """Return the sizes that attributes of a workload describe, for given numbers of features and targets."""
        return cls(
            columns,
            targets,
            int(attributes["depth"]),
            float(attributes["steps"]),
            int(attributes["levels"]),
            tuple(int(count) for count in attributes["groups"].split(", ")),
            int(attributes["kinds"]),
            attributes["shared"] != "0",
            attributes["aggregate"],
        )


@dataclass(frozen=True)
class Trees:
    """The arrays of an ensemble, in the order of the routine's arguments.

    Attributes:
        thresholds: Threshold of each node, in the dtype of the data.
        features: kind * columns + feature of each node, int32.
        children: Index of each node's first child, int32; the second child has the next index.
        leaves: Row of `values` for each leaf, int32; undefined for inner nodes.
        roots: Index of each tree's root, int32; trees are sorted by group.
        values: Leaf values, float32 [rows, targets], or [rows, 1] if each tree has one target.
        base: Start values of the aggregate, float32 [targets].
    """

    thresholds: Array
    features: Array
    children: Array
    leaves: Array
    roots: Array
    values: Array
    base: Array

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays in the order of the attributes."""
        return (
            self.thresholds,
            self.features,
            self.children,
            self.leaves,
            self.roots,
            self.values,
            self.base,
        )


def compared(x: Array, kind: Array, missing: Array) -> Array:
    """Return the values that nodes of the given kinds compare, for features `x`; `missing` marks NaN."""
    large = np.where(missing & (kind == NAN_IS_LARGE), np.inf, x)
    return np.where(kind == IS_NAN, missing.astype(x.dtype), large)


def tree_ensemble(forest: Forest, x: Array, trees: Trees) -> Array:
    """Compute an ensemble for rows x [rows, columns]; leaf values are combined tree by tree in float32."""
    node: Array = np.broadcast_to(trees.roots, (len(x), forest.trees)).astype(np.int64)
    for _ in range(forest.depth):
        kind, feature = np.divmod(trees.features[node], forest.columns)
        v = np.take_along_axis(x, feature, 1)
        with np.errstate(invalid="ignore"):
            node = trees.children[node] + (compared(v, kind, np.isnan(v)) > trees.thresholds[node])
    out = np.repeat(trees.base[None], len(x), 0)
    target = np.repeat(np.arange(len(forest.groups)), forest.groups)
    for index in range(forest.trees):
        columns = slice(None) if forest.shared else slice(target[index], target[index] + 1)
        values = trees.values[trees.leaves[node[:, index]]]
        out[:, columns] = _COMBINED[forest.aggregate](out[:, columns], values)
    return out


def tree_ensemble_routine(forest: Forest, rows: int, trees: Trees) -> Routine:
    """Return a routine that computes `tree_ensemble` for `rows` rows, of the data and `trees.arrays`."""
    arguments = [
        ((rows, forest.columns), str(trees.thresholds.dtype)),
        *((array.shape, str(array.dtype)) for array in trees.arrays),
        ((rows, forest.targets), "float32"),
    ]
    return routine_of_loops(
        NAME, arguments, lambda buffers: _emit(forest, rows, buffers), **forest.attributes
    )


def combined(aggregate: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Return the expression that aggregates two values: sum, minimum or maximum."""
    return {"sum": lambda: a + b, "min": lambda: tirx.min(a, b), "max": lambda: tirx.max(a, b)}[aggregate]()


def _emit(forest: Forest, rows: int, buffers: Sequence[tirx.Buffer]) -> None:
    x, thresholds, features, children, leaves, roots, values, base, output = buffers
    node = T.alloc_buffer((1,), "int64")

    def index(buffer: tirx.Buffer, at: ir.Expr) -> ir.Expr:
        return tirx.Cast("int64", buffer[at])

    with T.serial(i64(0), i64(rows)) as row:
        with T.serial(i64(0), i64(forest.targets)) as k:
            T.buffer_store(output, base[k], [row, k])
        first = 0
        for target, count in enumerate(forest.groups):
            with T.serial(i64(0), i64(count)) as tree:
                T.buffer_store(node, index(roots, tree + i64(first)), [i64(0)])
                with T.serial(i64(0), i64(forest.depth)):
                    at = T.Bind(node[i64(0)])
                    coded = T.Bind(index(features, at))
                    kind = T.Bind(tirx.floordiv(coded, i64(forest.columns)))
                    value = T.Bind(x[row, tirx.floormod(coded, i64(forest.columns))])
                    right = T.Bind(greater(value, thresholds[at], kind))
                    T.buffer_store(node, index(children, at) + tirx.Cast("int64", right), [i64(0)])
                leaf = T.Bind(index(leaves, node[i64(0)]))
                with T.serial(i64(0), i64(forest.targets if forest.shared else 1)) as k:
                    to = [row, k if forest.shared else i64(target)]
                    T.buffer_store(output, combined(forest.aggregate, output[tuple(to)], values[leaf, k]), to)
            first += count


def greater(value: ir.Expr, threshold: ir.Expr, kind: ir.Expr) -> ir.Expr:
    """Emit whether the value that a node's kind derives from a feature is above the node's threshold."""
    dtype = str(value.ty.dtype)
    one, zero, large = (tirx.FloatImm(dtype, number) for number in (1.0, 0.0, float("inf")))
    missing = T.Bind(tirx.isnan(value))
    seen = tirx.Select(tirx.And(missing, kind == i64(NAN_IS_LARGE)), large, value)
    seen = T.Bind(tirx.Select(kind == i64(IS_NAN), tirx.Select(missing, one, zero), seen))
    return seen > threshold
