# SPDX-License-Identifier: Apache-2.0
"""Validation of decision tree ensembles and their conversion to the normal form of `schedules.numerics.tree_ensemble`.

    x <= t    →    right (false) if x > t
    x < t     →    right (false) if x > the number below t
    x > t     →    right (true) if x > t
    x >= t    →    right (true) if x > the number below t
    x == t    →    false if x > t, else true if x > the number below t, else false

Every comparison of a model becomes x > threshold; an equality becomes two.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import ModelError
from schedules.numerics.tree_ensemble import IDENTITY, IS_NAN, NAN_IS_LARGE, VALUE, Forest, Trees

Array = npt.NDArray[Any]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF")
"""Modes of nodes under their ONNX names."""

LEQ, LT, GTE, GT, EQ, NEQ, LEAF = range(len(MODES))

DEEPEST = 10_000
"""Largest number of levels of a tree; trained trees typically have about ten."""

MOST_VALUES = 2**27
"""Largest number of float32 leaf values: half a gigabyte."""


@dataclass(frozen=True)
class Nodes:
    """The nodes of all trees, one array per attribute.

    Attributes:
        mode: Index in `MODES`.
        feature: Column of the data that is compared.
        threshold: Value that it is compared with, in the dtype of the data.
        true: Index of the child for a comparison that holds; undefined for leaves.
        false: Index of the child for a comparison that fails; undefined for leaves.
        missing: Whether NaN always takes the child `true`; if not, comparisons with NaN follow IEEE 754.
        tree: The model's number of the tree, for messages.
        node: The model's number of the node, for messages.
    """

    mode: Array
    feature: Array
    threshold: Array
    true: Array
    false: Array
    missing: Array
    tree: Array
    node: Array

    def name(self, index: int) -> str:
        """Return a node's name in messages."""
        return f"node {self.node[index]} of tree {self.tree[index]}"


@dataclass(frozen=True)
class Weights:
    """Weights of leaves, in one array per attribute; the entries of all arrays with one index belong together.

    Attributes:
        leaf: Index of the leaf among the nodes.
        target: Index of the result that the weight is added to.
        value: The weight.
    """

    leaf: Array
    target: Array
    value: Array


@dataclass(frozen=True)
class Ensemble:
    """An ensemble in normal form, with the result of the check which targets always get a score.

    Attributes:
        forest: Sizes of the ensemble.
        trees: Thresholds, children, leaf values and other arrays.
        scored: For each target, whether all leaves of some tree have a weight of it, so that every row gets a score.
    """

    forest: Forest
    trees: Trees
    scored: tuple[bool, ...]


@dataclass(frozen=True)
class _Walked:
    """For each node, its tree and its depth.

    Attributes:
        tree: Index of each node's tree; -1 for unreachable nodes.
        steps: Number of comparisons on the path from the root; an equality counts as two.
    """

    tree: Array
    steps: Array


def ensemble(
    nodes: Nodes,
    roots: Array,
    weights: Weights,
    columns: int,
    targets: int,
    aggregate: str = "sum",
    base: Array | None = None,
) -> Ensemble:
    """Check an ensemble and convert it to normal form.

    Args:
        nodes: The nodes of all trees.
        roots: Index of each tree's root.
        weights: The weights of leaves.
        columns: Number of features per row.
        targets: Number of results per row.
        aggregate: How the trees' values are combined: "sum", "min" or "max".
        base: Start value of the aggregate for each target; by default its neutral element.

    Raises:
        ModelError: The nodes do not form trees; the message names the node.
    """
    _check(nodes, roots, columns)
    walked = _walk(nodes, roots)
    leaf = nodes.mode == LEAF
    rows, row, target, scored = _leaves(nodes, walked, weights, len(roots), targets, IDENTITY[aggregate])
    shared = target is None
    order = np.arange(len(roots)) if target is None else np.argsort(target, kind="stable")
    groups = [len(roots)] if target is None else np.bincount(target, minlength=targets).tolist()
    table = _comparisons(nodes, walked)
    source, children = _slots(table, roots)
    ends = np.append(leaf, np.zeros(len(table.kind) - len(leaf), bool))[source]
    used = table.kind[source[~ends]]
    reached = leaf & (walked.tree >= 0)

    def totals(values: Array) -> Array:
        """Return, for each tree, the sum of values over its reachable leaves."""
        return np.bincount(walked.tree[reached], values[reached], len(roots))

    levels = np.zeros(len(roots), np.int64)
    np.maximum.at(levels, walked.tree[reached], walked.steps[reached])
    forest = Forest(
        columns,
        targets,
        int(levels.max(initial=0)),
        float((totals(walked.steps) / totals(np.ones(len(leaf)))).sum()),
        int(levels.sum()),
        tuple(groups),
        int(used.max(initial=VALUE)) + 1,
        shared,
        aggregate,
    )
    start = np.full(targets, IDENTITY[aggregate]) if base is None else base
    trees = Trees(
        np.where(ends, np.array(np.inf, table.threshold.dtype), table.threshold[source]),
        np.where(ends, 0, (table.kind * columns + table.feature)[source]).astype(np.int32),
        children.astype(np.int32),
        np.where(ends, row[np.where(ends, source, 0)], 0).astype(np.int32),
        order.astype(np.int32),
        rows,
        start.astype(np.float32),
    )
    return Ensemble(forest, trees, scored)


def _check(nodes: Nodes, roots: Array, columns: int) -> None:
    inner = np.flatnonzero(nodes.mode != LEAF)
    wrong = inner[(nodes.feature[inner] < 0) | (nodes.feature[inner] >= columns)]
    if len(wrong):
        feature = nodes.feature[wrong[0]]
        raise ModelError(
            f"{nodes.name(wrong[0])} compares feature {feature}, but the data has {columns} columns"
        )
    parents = np.bincount(np.concatenate([nodes.true[inner], nodes.false[inner]]), minlength=len(nodes.mode))
    if len(wrong := np.flatnonzero(parents > 1)):
        raise ModelError(
            f"{nodes.name(wrong[0])} is the child of {parents[wrong[0]]} nodes; in a tree each node has one parent"
        )
    if len(wrong := roots[parents[roots] > 0]):
        raise ModelError(
            f"{nodes.name(wrong[0])} is the root of its tree and also a child: a cycle is not a tree"
        )


def _walk(nodes: Nodes, roots: Array) -> _Walked:
    """Traverse the trees level by level. Every node has one parent, so each node is visited once."""
    count = len(nodes.mode)
    tree, steps = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    tree[roots] = np.arange(len(roots))
    level = roots
    for _ in range(DEEPEST):
        level = level[nodes.mode[level] != LEAF]
        if not len(level):
            return _Walked(tree, steps)
        cost = 1 + np.isin(nodes.mode[level], (EQ, NEQ))
        for children in (nodes.true[level], nodes.false[level]):
            tree[children], steps[children] = tree[level], steps[level] + cost
        level = np.concatenate([nodes.true[level], nodes.false[level]])
    raise ModelError(f"tree {nodes.tree[level[0]]} is deeper than {DEEPEST} levels, the maximum")


def _leaves(
    nodes: Nodes, walked: _Walked, weights: Weights, trees: int, targets: int, nothing: float
) -> tuple[Array, Array, Array | None, tuple[bool, ...]]:
    """Return the rows of leaf values, each node's row, each tree's target (None if leaves have several), `scored`."""
    if len(wrong := np.flatnonzero((weights.target < 0) | (weights.target >= targets))):
        where = nodes.name(weights.leaf[wrong[0]])
        raise ModelError(
            f"{where} has a weight of result {weights.target[wrong[0]]}, but there are {targets} results"
        )
    reached = (walked.tree[weights.leaf] >= 0) & (nodes.mode[weights.leaf] == LEAF)
    leaf, target, value = (array[reached] for array in (weights.leaf, weights.target, weights.value))
    tree = walked.tree[leaf]
    _, first, times = np.unique(leaf * targets + target, return_index=True, return_counts=True)
    if len(twice := np.flatnonzero(times > 1)):
        at = first[twice[0]]
        raise ModelError(
            f"{nodes.name(leaf[at])} has {times[twice[0]]} weights of result {target[at]}; add them up"
        )
    pairs, counts = np.unique(tree * targets + target, return_counts=True)
    ends = np.bincount(walked.tree[(walked.tree >= 0) & (nodes.mode == LEAF)], minlength=trees)
    full = pairs[counts == ends[pairs // targets]] % targets
    scored = tuple(bool(found) for found in np.isin(np.arange(targets), full))
    row = np.zeros(len(nodes.mode), np.int64)
    if len(np.unique(pairs // targets)) == len(pairs):
        own = np.zeros(trees, np.int64)
        own[tree] = target
        row[leaf] = 1 + np.arange(len(leaf))
        return np.append(nothing, value).astype(np.float32)[:, None], row, own, scored
    distinct, index = np.unique(leaf, return_inverse=True)
    if (len(distinct) + 1) * targets > MOST_VALUES:
        raise ModelError(
            f"{len(distinct)} distinct leaves of {targets} results each exceed the maximum of {MOST_VALUES} values"
        )
    rows = np.full((len(distinct) + 1, targets), nothing, np.float32)
    rows[1 + index, target] = value
    row[distinct] = 1 + np.arange(len(distinct))
    return rows, row, None, scored


@dataclass(frozen=True)
class _Table:
    """Comparisons v > threshold: one for each node, followed by the second comparisons of equalities.

    Attributes:
        kind: What v is of the feature's value: VALUE, NAN_IS_LARGE or IS_NAN.
        feature: Column of the data.
        threshold: Threshold of the comparison.
        left: Index of the comparison or leaf that follows if it fails; undefined for leaves.
        right: Index of the comparison or leaf that follows if it holds; undefined for leaves.
        order: Indices of the reachable comparisons, tree by tree, and level by level within a tree.
    """

    kind: Array
    feature: Array
    threshold: Array
    left: Array
    right: Array
    order: Array


def _comparisons(nodes: Nodes, walked: _Walked) -> _Table:
    """Convert each inner node to one comparison, and each equality to two."""
    mode, count = nodes.mode, len(nodes.mode)
    equal = np.flatnonzero(np.isin(mode, (EQ, NEQ)))
    second = np.full(count, -1, np.int64)
    second[equal] = count + np.arange(len(equal))
    yes = np.where(mode == NEQ, nodes.false, nodes.true)  # children of x == t; BRANCH_NEQ has them swapped
    no = np.where(mode == NEQ, nodes.true, nodes.false)
    upward = np.isin(mode, (GT, GTE))
    left, right = np.where(upward, no, yes), np.where(upward, yes, no)
    left[equal] = second[equal]
    # NaN equals nothing: without `missing`, NaN goes to the child `false`, or for BRANCH_NEQ to the child `true`.
    to_true = nodes.missing | (mode == NEQ)
    nan_right = to_true == upward
    nan_right[equal] = to_true[equal] == (mode[equal] == NEQ)
    below = np.isin(mode, (LT, GTE))
    table = _normal(
        np.append(nodes.threshold, nodes.threshold[equal]),
        np.append(below, np.full(len(equal), True)),
        np.append(upward, np.full(len(equal), True)),
        np.append(nan_right, np.full(len(equal), True)),
        np.append(left, no[equal]),
        np.append(right, yes[equal]),
    )
    kind, threshold, left, right = table
    tree = np.append(walked.tree, walked.tree[equal])
    steps = np.append(walked.steps, walked.steps[equal] + 1)
    order = np.lexsort((steps, tree))
    inner = np.append(mode != LEAF, np.full(len(equal), True))
    order = order[(tree[order] >= 0) & inner[order]]
    return _Table(kind, np.append(nodes.feature, nodes.feature[equal]), threshold, left, right, order)


def _normal(
    threshold: Array, below: Array, upward: Array, nan_right: Array, left: Array, right: Array
) -> tuple[Array, Array, Array, Array]:
    """Return comparisons in normal form, each x > t or x > the number below t: kinds, thresholds, children."""
    with np.errstate(over="ignore"):
        bound = np.where(below, np.nextafter(threshold, np.array(-np.inf, threshold.dtype)), threshold)
    unordered = np.isnan(threshold)  # comparisons with NaN fail: x <= NaN goes right, x > NaN goes left
    always = np.where(unordered, ~upward, below & np.isneginf(threshold))
    never = np.where(unordered, upward, np.isposinf(bound))
    kind = np.where(nan_right, NAN_IS_LARGE, VALUE)
    # A comparison with the same result for all numbers can only distinguish NaN.
    asks = always | (never & nan_right)
    kind[asks] = IS_NAN
    bound = np.where(always & nan_right, -1.0, np.where(asks, 0.5, bound)).astype(threshold.dtype)
    bound[never & ~nan_right] = np.inf
    swapped = always & ~nan_right
    return kind, bound, np.where(swapped, right, left), np.where(swapped, left, right)


def _slots(table: _Table, roots: Array) -> tuple[Array, Array]:
    """Lay out the nodes, roots first, then pairs of children.

    Return, for each slot, its comparison and its first child.
    """
    order = table.order
    source = np.concatenate([roots, np.stack([table.left[order], table.right[order]], 1).ravel()])
    place = np.full(len(table.kind), -1, np.int64)
    place[order] = len(roots) + 2 * np.arange(len(order))
    children = place[source]
    return source, np.where(children < 0, np.arange(len(source)), children)
