# SPDX-License-Identifier: Apache-2.0
"""Slices and ranges whose start only the run knows, against onnxruntime."""

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from tests.arm_ext.frontends.onnx.control_models import BOOL, FLOAT, INT64, graph, model, node, number, value
from tests.arm_ext.frontends.onnx.test_control import Compiled

ROWS = 9

ENDS = {
    "s + 1": (1, ROWS, [node("Add", ["s", "one"], ["end"])]),
    "1 + s": (1, ROWS, [node("Add", ["one", "s"], ["end"])]),
    "s + 4 - 1": (3, ROWS, [node("Add", ["s", "four"], ["far"]), node("Sub", ["far", "one"], ["end"])]),
    "min(s + 4, rows)": (
        4,
        ROWS,
        [node("Add", ["s", "four"], ["far"]), node("Min", ["far", "rows"], ["end"])],
    ),
    "min(7, s) + 1": (1, 8, [node("Min", ["seven", "s"], ["least"]), node("Add", ["least", "one"], ["end"])]),
    "in float32": (
        1,
        ROWS,
        [
            node("Cast", ["s"], ["float"], to=FLOAT),
            node("Mul", ["float", "factor"], ["same"]),
            node("Add", ["same", "factor"], ["more"]),
            node("Cast", ["more"], ["next"], to=INT64),
            node("Concat", ["next"], ["list"], axis=0),
            node("Min", ["rows", "list"], ["end"]),
        ],
    ),
}
"""What computes the end of a slice from its start s → the size of the slice, the limit of its end, and the nodes."""


ARRAYS = {"one": [1], "four": [4], "seven": [7], "rows": [ROWS], "zero": [0]}


def sliced(nodes: Sequence[NodeProto], *, start: str = "s", step: int = 1) -> ModelProto:
    """y = x[start : end : step], where nodes compute the end; s and t are inputs."""
    nodes = [*nodes, node("Slice", ["x", start, "end", "zero", "step"], ["y"], "slice")]
    inputs = [value("x", (ROWS, 3)), value("s", (1,), INT64), value("t", (1,), INT64)]
    arrays = {**ARRAYS, "factor": np.float32(1), "step": [step]}
    return model(graph(nodes, inputs, [value("y", ("k", 3))], **arrays))


@pytest.mark.parametrize("end", ENDS)
def test_a_slice_has_the_size_of_one_inside_its_bounds(end: str):
    size, limit, nodes = ENDS[end]
    proto = sliced(nodes)
    assert import_onnx(proto).outputs[0].shape == (size, 3)
    compiled, x = Compiled.of(proto), np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3)
    for start in range(limit - size + 1):
        compiled.check(x, [start], [0])
    for start in (-1, limit - size + 1, 1 << 40):
        with pytest.raises(IndexError, match="out of bounds"):
            compiled.run(x, np.array([start]), np.array([0]))


@pytest.mark.parametrize("kind", [INT64, TensorProto.INT32])
def test_a_range_has_the_size_of_one_inside_its_bounds(kind: int):
    nodes = [
        node("Add", ["s", "two"], ["far"]),
        node("Min", ["far", "rows"], ["end"]),
        node("Squeeze", ["s"], ["start"]),
        node("Range", ["start", "end", "one"], ["y"], "range"),
    ]
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    arrays = {name: np.array(n, dtype) for name, n in {"one": 1, "two": 2, "rows": ROWS}.items()}
    compiled = Compiled.of(
        model(graph(nodes, [value("s", (1,), kind)], [value("y", ("k",), kind)], **arrays))
    )
    for start in (0, 3, ROWS - 2):
        compiled.check(np.array([start], dtype))
    for start in (-1, ROWS - 1):
        with pytest.raises(IndexError, match="out of bounds"):
            compiled.run(np.array([start], dtype))


NEAR_MISSES = {
    "end of another value": sliced([node("Add", ["t", "one"], ["end"])]),
    "step of 2": sliced([node("Add", ["s", "four"], ["end"])], step=2),
    "start with a limit": sliced(
        [node("Min", ["s", "seven"], ["low"]), node("Add", ["low", "one"], ["end"])], start="low"
    ),
    "no constant offset": sliced([node("Add", ["s", "t"], ["end"])]),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_size_that_only_the_run_knows_is_refused(name: str):
    with pytest.raises(ModelError, match="slice"):
        import_onnx(NEAR_MISSES[name])


def setting_values(rows: int) -> ModelProto:
    """x[i] = v + i in rounds i = 0, 1, … while i + 1 < limit, as Paddle2ONNX exports such a loop."""
    steps = [
        node("Cast", ["i"], ["i_float"], to=FLOAT),
        node("Mul", ["i_float", "factor"], ["i_same"]),
        node("Add", ["i_same", "factor"], ["i_more"]),
        node("Cast", ["i_more"], ["i_next"], to=INT64),
        node("Shape", ["x_in"], ["shape"]),
        node("Gather", ["shape", "zero"], ["rows"], axis=0),
        node("Min", ["rows", "i_next"], ["end"]),
        node("Slice", ["x_in", "i", "end", "zero", "one"], ["part"], "part"),
        node("Shape", ["part"], ["part_shape"]),
        node("Add", ["v", "i_float"], ["new"]),
        node("Expand", ["new", "part_shape"], ["expanded"]),
        *(node("Squeeze", [name], [f"{name}_scalar"]) for name in ("i", "end", "one")),
        node("Range", ["i_scalar", "end_scalar", "one_scalar"], ["indices"]),
        node("Unsqueeze", ["indices", "one"], ["places"]),
        node("ScatterND", ["x_in", "places", "expanded"], ["x_out"]),
        node("Less", ["i_next", "limit"], ["goes_on"]),
    ]
    body = graph(
        steps,
        [number("round"), value("go", (1,), BOOL), value("x_in", (rows, 3)), value("i", (1,), INT64)],
        [value("goes_on", (1,), BOOL), value("x_out", (rows, 3)), value("i_next", (1,), INT64)],
        factor=np.array([1], np.float32),
        zero=[0],
        one=[1],
    )
    loop = node("Loop", ["most", "true", "x", "first"], ["y", "count"], "fill", body=body)
    inputs = [value("x", (rows, 3)), value("v", (3,)), value("limit", (1,), INT64)]
    outputs = [value("y", (rows, 3)), value("count", (1,), INT64)]
    return model(graph([loop], inputs, outputs, most=[1024], true=[True], first=[0]))


def test_a_loop_sets_rows_as_paddle_exports_it():
    compiled, rng = Compiled.of(setting_values(ROWS)), np.random.default_rng(3)
    x, v = (rng.normal(size=shape).astype(np.float32) for shape in ((ROWS, 3), (3,)))
    for limit in (1, 4, ROWS):
        y, count = compiled.check(x, v, [limit])
        assert count == limit
        np.testing.assert_array_equal(y[limit:], x[limit:])
    with pytest.raises(IndexError, match="out of bounds"):
        compiled.run(x, v, np.array([ROWS + 1]))


def test_a_long_loop_slices_by_its_round():
    """x[i : min(i + 1, n)] in rounds i of a constant number n that is too large to unroll."""
    rows = 1031
    steps = [
        node("Unsqueeze", ["i", "zero"], ["start"]),
        node("Add", ["start", "one"], ["next"]),
        node("Min", ["next", "rows"], ["end"]),
        node("Slice", ["x", "start", "end", "zero"], ["row"], "row"),
        node("Mul", ["s", "half"], ["less"]),
        node("Add", ["less", "row"], ["more"]),
        node("Identity", ["c"], ["go"]),
    ]
    body = graph(
        steps,
        [number("i"), number("c", BOOL), value("s", (1, 3))],
        [number("go", BOOL), value("more", (1, 3))],
        half=np.float32(0.5),
        **{**ARRAYS, "rows": [rows]},
    )
    loop = node("Loop", ["n", "", "first"], ["y"], "decay", body=body)
    inputs = [value("x", (rows, 3)), value("first", (1, 3))]
    compiled = Compiled.of(model(graph([loop], inputs, [value("y", (1, 3))], n=np.int64(rows))))
    rng = np.random.default_rng(3)
    compiled.check(*(rng.normal(size=(n, 3)).astype(np.float32) for n in (rows, 1)))
