# SPDX-License-Identifier: Apache-2.0
"""Decision tree ensembles of ai.onnx.ml: scores by one call, labels and transforms by standard ONNX operators.

    TreeEnsembleRegressor(x)     →    transform(trees(x) + base)
    TreeEnsembleClassifier(x)    →    s = trees(x) + base; the label of the greatest score, transform(s)
    TreeEnsemble(x)              →    transform(trees(x))

Where the operator definitions are ambiguous, this follows onnxruntime: the label of two classes, and their scores
where only one class has weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.common.text import shown
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import part
from arm_ext.frontends.onnx.scores import (
    TRANSFORMS,
    above,
    both_classes,
    effective_transform,
    has_label_output,
    labels_of,
    put_labels,
    transform_of,
    transformed,
)
from arm_ext.frontends.ops.trees import EQ, LEAF, MODES, Ensemble, Nodes, Weights, ensemble
from schedules.numerics.tree_ensemble import Forest, Trees, tree_ensemble_routine

Array = npt.NDArray[Any]

TREES = "TreeEnsemble"
"""Operator in the domain `OWN` for the scores; inputs are the data and the arrays of `Trees`, attributes `Forest`'s."""

_AGGREGATES = {"SUM": "sum", "AVERAGE": "sum", "MIN": "min", "MAX": "max"}

_BY_NUMBER = ("AVERAGE", "SUM", "MIN", "MAX")
"""Aggregates by their number in TreeEnsemble's `aggregate_function`."""

_MEMBER = 6
"""Number of TreeEnsemble's mode BRANCH_MEMBER; all other modes have their index in `MODES`."""

_NODES = ("nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")


def regressor(e: Expansion) -> None:
    """Replace a TreeEnsembleRegressor by the operator `TREES` and the transform of its scores."""
    targets, aggregate = int(e.attribute("n_targets", 1)), e.text("aggregate_function", "SUM")
    read = _read(e, "target", targets)
    base = _base(e, targets)
    _regress(e, read, targets, aggregate, base, transform_of(e))


def tree_ensemble(e: Expansion) -> None:
    """Replace a TreeEnsemble (ai.onnx.ml 5) by the operator `TREES` and the transform of its scores."""
    targets = int(e.attribute("n_targets", 1))
    aggregate = _numbered(_BY_NUMBER, int(e.attribute("aggregate_function", 1)), "aggregate_function")
    transform = _numbered(TRANSFORMS, int(e.attribute("post_transform", 0)), "post_transform")
    _regress(e, _read_indexed(e), targets, aggregate, None, transform)


def _numbered(names: Sequence[str], number: int, attribute: str) -> str:
    if not 0 <= number < len(names):
        raise ModelError(f"its {attribute} is {number}; supported are 0 to {len(names) - 1}")
    return names[number]


def _regress(
    e: Expansion, read: "_Read", targets: int, aggregate: str, base: Array | None, transform: str
) -> None:
    if aggregate not in _AGGREGATES:
        raise ModelError(f"its aggregate_function is '{aggregate}'; supported are {', '.join(_AGGREGATES)}")
    if aggregate == "AVERAGE":
        read = replace(read, weights=replace(read.weights, value=read.weights.value / len(read.roots)))
    kind = _AGGREGATES[aggregate]
    scores, found = _scores(e, read, targets, kind, base if kind == "sum" else None)
    if kind != "sum":
        if not all(found.scored):
            target = found.scored.index(False)
            raise ModelError(
                f"no tree has a weight of result {target} in each leaf, and nothing has no {kind}"
            )
        scores = scores if base is None else e.emit("Add", [scores, _row(e, base, scores)])
    if (
        e.node.op_type == TREES and e.dtype(e.node.input[0]) != np.float32
    ):  # TreeEnsemble returns the dtype of the data, the other operators float32
        scores = e.emit("Cast", [scores], to=onnx.TensorProto.DOUBLE)
    transformed(e, scores, effective_transform(transform, targets), e.node.output[0])


def classifier(e: Expansion) -> None:
    """Replace a TreeEnsembleClassifier by the operator `TREES`, the choice of a label, and the scores' transform."""
    labels = labels_of(e, "classlabels_int64s")
    if not labels:
        raise ModelError("it has no labels (classlabels_int64s)")
    classes = len(labels)
    read, transform = _read(e, "class", classes), transform_of(e)
    output = e.node.output[1] if len(e.node.output) > 1 else ""
    if classes == 2:
        scores, transform = _two_classes(e, read, labels, transform)
    else:
        base = _base(e, classes)
        scores, found = _scores(e, read, classes, "sum", base)
        if classes == 1:
            _put_numbered(e, above(e, scores, 0.0))
            transform = effective_transform(transform, classes)
        else:
            _check_scored(found, read, base)
            put_labels(e, e.emit("ArgMax", [scores], axis=1, keepdims=0), labels)
    transformed(e, scores, transform, output)


def _check_scored(found: Ensemble, read: "_Read", base: Array | None) -> None:
    """Refuse classes that get no score in some rows, unless all weights are positive.

    onnxruntime never chooses a class without a score; here its score is 0, which could be the greatest.
    """
    if all(found.scored) or base is not None or (read.weights.value > 0).all():
        return
    raise ModelError(
        f"no tree has a weight of class {found.scored.index(False)} in each leaf, and others have weights of 0 or "
        "less: give each leaf a weight of each class"
    )


def _two_classes(e: Expansion, read: "_Read", labels: Sequence[int], transform: str) -> tuple[str, str]:
    """Emit the labels and scores of two classes; return the scores and the transform that still has to be applied."""
    base = _numbers(e, "base_values")
    present = np.unique(read.weights.target).tolist()
    if len(present) == 1 and len(base) > 1 - present[0]:
        raise ModelError(
            f"it has {len(base)} base_values, but all its weights are of class {present[0]}, which is not defined: use "
            "a single base value and weights of class 0" + (", or no base_values" if present[0] else "")
        )
    scores, found = _scores(e, read, 2, "sum", None)
    if present != [0] and not found.scored[1]:
        raise ModelError(
            "no tree has a weight of class 1 in each leaf: give each leaf a weight of each class"
        )
    first, second = (part(e, scores, k, k + 1) for k in range(2))
    if present == [0]:
        first = _plus(e, first, base[:1])
    elif present == [0, 1] and len(base):
        # As in onnxruntime, with two base values there is one score, and the first class has its negative.
        first = _plus(e, first, base[-1:])
        if len(base) == 2:
            second, first = first, e.emit("Neg", [first])
    positive = bool((read.weights.value >= 0).all())
    winner = first if present == [0] else second
    which = above(e, winner, 0.5 if len(present) == 1 and positive else 0.0)
    if len(present) == 1:
        put_labels(e, which, labels)
    else:
        _put_numbered(e, which)
    if present != [0]:
        return e.emit("Concat", [first, second], axis=1), transform
    return both_classes(e, first, transform, positive=positive)


def _put_numbered(e: Expansion, which: str) -> None:
    """Emit the labels 0 and 1 instead of the classes' own labels, as onnxruntime does."""
    if has_label_output(e):
        e.emit("Identity", [which], e.node.output[0])


def _plus(e: Expansion, score: str, base: Array) -> str:
    return e.emit("Add", [score, _row(e, base, score)]) if len(base) else score


def _row(e: Expansion, values: Array, other: str) -> str:
    return e.constant(values.astype(e.dtype(other)))


@dataclass(frozen=True)
class _Read:
    """The trees of a node, as arrays read from its attributes.

    Attributes:
        nodes: The nodes of all trees.
        roots: Index of each tree's root.
        weights: The weights of leaves.
    """

    nodes: Nodes
    roots: Array
    weights: Weights


def _scores(
    e: Expansion, read: _Read, targets: int, aggregate: str, base: Array | None
) -> tuple[str, Ensemble]:
    """Emit the operator `TREES`, which computes the scores; return its output, and the ensemble in normal form."""
    x, dims = e.node.input[0], e.dims(e.node.input[0])
    if len(dims) != 2:
        raise ModelError(f"its data has {len(dims)} dimensions; expected 2: [rows, features]")
    if e.dtype(x) != read.nodes.threshold.dtype:
        x = e.emit("Cast", [x], to=onnx.TensorProto.FLOAT)
    if targets < 1:
        raise ModelError(f"it has {targets} results; expected at least one")
    found = ensemble(read.nodes, read.roots, read.weights, dims[1], targets, aggregate, base)
    inputs = [x, *(e.constant(array) for array in found.trees.arrays)]
    float32, shape = np.dtype(np.float32), (dims[0], targets)
    return e.emit_own(TREES, inputs, float32, shape, **found.forest.attributes), found


def convert_trees(
    builder: relax.BlockBuilder, node: onnx.NodeProto, inputs: Sequence[relax.Expr | None]
) -> relax.Expr:
    """Convert the operator `TREES` to a call_tir of the routine in `schedules.numerics`."""
    x, *arrays = cast("list[Any]", inputs)
    trees = Trees(*(array.value.numpy() for array in arrays))
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    texts = {
        name: value.decode() if isinstance(value, bytes) else str(value) for name, value in attributes.items()
    }
    rows, columns = (int(dim) for dim in x.ty.shape)
    forest = Forest.of(texts, columns, len(trees.base))
    symbol = builder.add_func(tree_ensemble_routine(forest, rows, trees).func, "tree_ensemble")
    out = relax.TensorType((rows, forest.targets), "float32")
    return builder.emit(relax.call_tir(symbol, [x, *arrays], out))


def _data_dtype(e: Expansion) -> np.dtype[Any]:
    """Return the dtype in which features are compared with thresholds."""
    return np.dtype(np.float64 if e.dtype(e.node.input[0]) == np.float64 else np.float32)


def _numbers(e: Expansion, name: str) -> Array:
    """Return the numbers of a list attribute, or of the tensor attribute `<name>_as_tensor` that replaces it."""
    for attribute in e.node.attribute:
        if attribute.name in (name, f"{name}_as_tensor"):
            if attribute.HasField("t"):
                tensor: Array = numpy_helper.to_array(attribute.t)
                return tensor.ravel()
            if attribute.floats and not attribute.ints:
                return np.fromiter(attribute.floats, np.float64, len(attribute.floats))
            return np.fromiter(attribute.ints, np.int64, len(attribute.ints))
    return np.zeros(0, np.int64)


def _base(e: Expansion, targets: int) -> Array | None:
    base = _numbers(e, "base_values")
    if len(base) not in (0, targets):
        raise ModelError(f"it has {len(base)} base_values for {targets} results")
    return base if len(base) else None


def _same_length(lists: dict[str, Array]) -> None:
    """Refuse attributes of different lengths, each of which should have one entry per node or per weight."""
    (first, known), *others = lists.items()
    for name, array in others:
        if len(array) != len(known):
            raise ModelError(f"its {name} has {len(array)} entries, but {first} has {len(known)}")


def _read(e: Expansion, kind: str, targets: int) -> _Read:
    """Read the attributes of a TreeEnsembleRegressor ("target") or TreeEnsembleClassifier ("class")."""
    lists = {"nodes_treeids": _numbers(e, "nodes_treeids")}
    lists |= {f"nodes_{name}": _numbers(e, f"nodes_{name}") for name in _NODES if name != "modes"}
    lists["nodes_modes"] = _modes(e)
    missing = _numbers(e, "nodes_missing_value_tracks_true")
    if len(missing):
        lists["nodes_missing_value_tracks_true"] = missing
    _same_length(lists)
    tree, node = lists["nodes_treeids"], lists["nodes_nodeids"]
    if not len(tree):
        raise ModelError("it has no nodes")
    given = {
        f"{kind}_{name}": _numbers(e, f"{kind}_{name}") for name in ("treeids", "nodeids", "ids", "weights")
    }
    _same_length(given)
    find = _index(tree, node)
    inner = lists["nodes_modes"] != LEAF
    children = {}
    for side in ("true", "false"):
        wanted = lists[f"nodes_{side}nodeids"]
        found = find(tree, wanted)
        if len(lost := np.flatnonzero(inner & (found < 0))):
            at = lost[0]
            raise ModelError(
                f"node {node[at]} of tree {tree[at]} has the {side} child {wanted[at]}, which its tree does not have"
            )
        children[side] = found
    weights = Weights(
        find(given[f"{kind}_treeids"], given[f"{kind}_nodeids"]),
        given[f"{kind}_ids"],
        given[f"{kind}_weights"],
    )
    if len(lost := np.flatnonzero(weights.leaf < 0)):
        at = lost[0]
        raise ModelError(
            f"a weight is of node {given[f'{kind}_nodeids'][at]} of tree {given[f'{kind}_treeids'][at]}, which does "
            "not exist"
        )
    _, first = np.unique(tree, return_index=True)
    return _Read(
        Nodes(
            lists["nodes_modes"],
            lists["nodes_featureids"],
            lists["nodes_values"].astype(_data_dtype(e)),
            children["true"],
            children["false"],
            missing == 1 if len(missing) else np.zeros(len(tree), bool),
            tree,
            node,
        ),
        first,
        weights,
    )


def _modes(e: Expansion) -> Array:
    """Return, for each node, the index of its mode in `MODES`."""
    texts = next((a.strings for a in e.node.attribute if a.name == "nodes_modes"), ())
    numbers = {name.encode(): number for number, name in enumerate(MODES)}
    found = np.fromiter((numbers.get(text, -1) for text in texts), np.int64, len(texts))
    if len(unknown := np.flatnonzero(found < 0)):
        name = shown(texts[int(unknown[0])].decode(errors="replace"))
        raise ModelError(f"its nodes have the mode '{name}'; supported are {', '.join(MODES)}")
    return found


def _index(tree: Array, node: Array) -> Callable[[Array, Array], Array]:
    """Return a function that maps tree and node numbers to indices of nodes; -1 if there is no such node."""
    trees, nodes = np.unique(tree), np.unique(node)
    key = np.searchsorted(trees, tree) * len(nodes) + np.searchsorted(nodes, node)
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[order][1:] == key[order][:-1])
    if len(twice):
        at = order[twice[0]]
        raise ModelError(f"node {node[at]} of tree {tree[at]} is defined twice")

    def find(of: Array, wanted: Array) -> Array:
        places = [np.searchsorted(all_, some) for all_, some in ((trees, of), (nodes, wanted))]
        places = [np.minimum(at, len(all_) - 1) for at, all_ in zip(places, (trees, nodes), strict=True)]
        exists = (trees[places[0]] == of) & (nodes[places[1]] == wanted)
        wanted_key = places[0] * len(nodes) + places[1]
        at = np.minimum(np.searchsorted(key[order], wanted_key), len(key) - 1)
        return np.where(exists & (key[order[at]] == wanted_key), order[at], -1)

    return find


def _read_indexed(e: Expansion) -> _Read:
    """Read the attributes of a TreeEnsemble, whose children are indices and whose leaves are in separate lists."""
    lists = {f"nodes_{name}": _numbers(e, f"nodes_{name}") for name in (
        "splits", "featureids", "modes", "truenodeids", "falsenodeids", "trueleafs", "falseleafs"
    )}  # fmt: skip
    missing = _numbers(e, "nodes_missing_value_tracks_true")
    _same_length(lists | ({"nodes_missing_value_tracks_true": missing} if len(missing) else {}))
    leaves = {f"leaf_{name}": _numbers(e, f"leaf_{name}") for name in ("targetids", "weights")}
    _same_length(leaves)
    roots, mode, count = _numbers(e, "tree_roots"), lists["nodes_modes"], len(lists["nodes_splits"])
    if len(wrong := roots[(roots < 0) | (roots >= count)]) or not len(roots):
        raise ModelError(f"a tree begins at node {wrong[0]} of {count}" if len(wrong) else "it has no trees")
    if len(np.unique(roots)) < len(roots):
        raise ModelError("two trees have the same root node")
    if len(wrong := np.flatnonzero((mode < 0) | (mode > _MEMBER))):
        raise ModelError(f"node {wrong[0]} has the mode {mode[wrong[0]]}, and there are 0 to {_MEMBER}")
    mode, splits = _single_members(mode, lists["nodes_splits"], _numbers(e, "membership_values"))
    # A leaf that several nodes refer to becomes one node for each of them.
    ends, total = [np.zeros(0, np.int64)], count
    children = {}
    for side in ("true", "false"):
        wanted, at_leaf = lists[f"nodes_{side}nodeids"], lists[f"nodes_{side}leafs"] != 0
        bound = np.where(at_leaf, len(leaves["leaf_weights"]), count)
        if len(wrong := np.flatnonzero((wanted < 0) | (wanted >= bound))):
            what = "leaf" if at_leaf[wrong[0]] else "node"
            raise ModelError(
                f"node {wrong[0]} has the {side} child {wanted[wrong[0]]}, and there is no such {what}"
            )
        own = np.where(at_leaf, total + np.cumsum(at_leaf) - 1, wanted)
        ends.append(wanted[at_leaf])
        total += int(at_leaf.sum())
        children[side] = own
    leaf = np.concatenate(ends)
    tail = np.zeros(len(leaf), np.int64)
    names = np.append(np.arange(count), tail)
    nodes = Nodes(
        np.append(mode, tail + LEAF),
        np.append(lists["nodes_featureids"], tail),
        np.append(splits, tail).astype(_data_dtype(e)),
        np.append(children["true"], tail),
        np.append(children["false"], tail),
        np.append(missing != 0 if len(missing) else np.zeros(count, bool), tail.astype(bool)),
        np.zeros_like(names),
        names,
    )
    places = count + np.arange(len(leaf))
    return _Read(nodes, roots, Weights(places, leaves["leaf_targetids"][leaf], leaves["leaf_weights"][leaf]))


def _single_members(mode: Array, splits: Array, members: Array) -> tuple[Array, Array]:
    """Return modes and splits with BRANCH_MEMBER nodes of one value replaced by BRANCH_EQ.

    Raises:
        ModelError: A set has no or several values.
    """
    nodes = np.flatnonzero(mode == _MEMBER)
    if not len(nodes):
        return mode, splits
    ends = np.flatnonzero(np.isnan(members))
    sizes = np.diff(ends, prepend=-1) - 1
    if len(ends) != len(nodes):
        raise ModelError(
            f"its membership_values hold {len(ends)} sets for {len(nodes)} nodes of mode BRANCH_MEMBER"
        )
    if len(wrong := np.flatnonzero(sizes != 1)):
        raise ModelError(
            f"node {nodes[wrong[0]]} tests for one of {sizes[wrong[0]]} values (BRANCH_MEMBER); only sets of one value "
            "are supported: write it as BRANCH_EQ nodes"
        )
    mode, splits = mode.copy(), splits.copy()
    mode[nodes], splits[nodes] = EQ, members[ends - 1]
    return mode, splits
