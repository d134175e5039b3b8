# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.ml models of random trees, and of trees trained by xgboost."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

NODES = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")


@dataclass
class Grown:
    """Attribute lists of a TreeEnsembleRegressor or -Classifier, without the prefix of weights."""

    nodes: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in NODES})
    missing: list[int] = field(default_factory=list)
    weights: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    )

    def node(self, tree: int, number: int, **values: object) -> int:
        """Add a node, by default a leaf, and return its index."""
        given = {"treeids": tree, "nodeids": number, "featureids": 0, "modes": "LEAF", "values": 0.0}
        given |= {"truenodeids": 0, "falsenodeids": 0, **values}
        for name in NODES:
            self.nodes[name].append(given[name])
        self.missing.append(int(given.get("missing", 0)))
        return len(self.missing) - 1

    def weight(self, tree: int, number: int, target: int, value: float) -> None:
        for name, entry in zip(self.weights, (tree, number, target, value), strict=True):
            self.weights[name].append(entry)

    def attributes(self, kind: str) -> dict[str, list[Any]]:
        """Return the attributes; `kind` is "target" or "class"."""
        found = {f"nodes_{name}": values for name, values in self.nodes.items()}
        if any(self.missing):
            found["nodes_missing_value_tracks_true"] = self.missing
        return found | {f"{kind}_{name}": values for name, values in self.weights.items()}


def grown(
    trees: int,
    depth: int,
    columns: int,
    targets: int = 1,
    *,
    shared: bool = False,
    modes: Sequence[str] = MODES,
    missing: float = 0.5,
    ragged: float = 0.2,
    seed: int = 0,
    only: int | None = None,
    values: Sequence[float] = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5),
) -> Grown:
    """Return random trees.

    Args:
        trees: Number of trees.
        depth: Largest number of levels.
        columns: Number of features.
        targets: Number of results, which the trees take in turn, or share.
        shared: Whether each leaf has a weight of each target.
        modes: Comparisons to draw from.
        missing: Share of nodes that send NaN to the child `true`.
        ragged: Share of nodes that are leaves above the last level.
        seed: Seed of the random numbers.
        only: The only target that has weights, if given.
        values: Thresholds to draw from.
    """
    rng, found = np.random.default_rng(seed), Grown()

    def grow(tree: int, left: int, numbers: list[int]) -> int:
        number = len(numbers)
        numbers.append(number)
        if not left or (left < depth and rng.random() < ragged):
            found.node(tree, number)
            own = range(targets) if shared else [tree % targets if only is None else only]
            for target in own:
                found.weight(tree, number, target, float(np.float32(rng.normal())))
            return number
        at = found.node(
            tree,
            number,
            featureids=int(rng.integers(columns)),
            modes=str(rng.choice(list(modes))),
            values=float(rng.choice(list(values))),
            missing=rng.random() < missing,
        )
        for side in ("truenodeids", "falsenodeids"):
            found.nodes[side][at] = grow(tree, left - 1, numbers)
        return number

    for tree in range(trees):
        grow(tree, depth, [])
    return found


def ml_model(
    op: str,
    attributes: dict[str, Any],
    shape: Sequence[int],
    outputs: Sequence[tuple[str, int]] = (("y", TensorProto.FLOAT),),
    *,
    dtype: int = TensorProto.FLOAT,
    version: int = 3,
    name: str = "trees",
) -> onnx.ModelProto:
    """A model of one node of ai.onnx.ml with one input, "x"."""
    node = helper.make_node(op, ["x"], [output for output, _ in outputs], name, domain=ML, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(output, elem, None) for output, elem in outputs],
    )
    opsets = [helper.make_opsetid(ML, version), helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def regressor(found: Grown, shape: Sequence[int], targets: int = 1, **more: Any) -> onnx.ModelProto:
    """A TreeEnsembleRegressor; `more` are attributes, or options of `ml_model`."""
    options = {name: more.pop(name) for name in ("dtype", "name") if name in more}
    return ml_model(
        "TreeEnsembleRegressor", found.attributes("target") | {"n_targets": targets} | more, shape, **options
    )


SCORES = (("label", TensorProto.INT64), ("scores", TensorProto.FLOAT))


def classifier(found: Grown, shape: Sequence[int], labels: Sequence[int], **more: Any) -> onnx.ModelProto:
    """A TreeEnsembleClassifier."""
    attributes = found.attributes("class") | {"classlabels_int64s": list(labels)} | more
    return ml_model("TreeEnsembleClassifier", attributes, shape, SCORES)


def of_xgboost(booster: Any, classes: int = 1) -> Grown:
    """Return the trees of an xgboost.Booster, which belong to the classes in turn."""
    found = Grown()
    for tree, text in enumerate(booster.get_dump(dump_format="json")):
        left = [json.loads(text)]
        while left:
            node = left.pop()
            if "leaf" in node:
                found.node(tree, node["nodeid"])
                found.weight(tree, node["nodeid"], tree % classes, node["leaf"])
                continue
            found.node(
                tree,
                node["nodeid"],
                featureids=int(node["split"][1:]),
                modes="BRANCH_LT",
                values=node["split_condition"],
                truenodeids=node["yes"],
                falsenodeids=node["no"],
                missing=node["missing"] == node["yes"],
            )
            left += node["children"]
    return found


def data(rows: int, columns: int, seed: int = 1, *, missing: float = 0.1) -> np.ndarray[Any, Any]:
    """Return rows that hit the thresholds of `grown` exactly, with NaN and infinities."""
    rng = np.random.default_rng(seed)
    x = (rng.integers(-4, 5, (rows, columns)) * 0.5).astype(np.float32)
    x[rng.random(x.shape) < missing] = np.nan
    x[rng.random(x.shape) < missing / 4] = np.inf
    x[rng.random(x.shape) < missing / 4] = -np.inf
    return x
