# SPDX-License-Identifier: Apache-2.0
"""Operators with indices, sizes or offsets at run time: each function appends one to a graph."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.memory_graphs import Graph

_TAILS = (1, 7, 8, 9, 31)
_REDUCTIONS = ("none", "add", "mul", "min", "max")


def _shape(g: Graph, least: int = 1, most: int = 4) -> list[int]:
    return [g.size(7) for _ in range(int(g.rng.integers(least, most + 1)))]


def gather(g: Graph) -> None:
    shape = _shape(g)
    axis = int(g.rng.integers(len(shape)))
    n = shape[axis]
    places = g.index(_shape(g, 0, 2), -n, n - 1, g.pick(["i4", "i8"]))
    y = g.node("Gather", [g.data(shape), places], axis=axis)
    g.give(g.node("Mul", [y, g.constant(np.float32(2))]) if g.flag() else y)


def embedding(g: Graph) -> None:
    """A table of constants, and what follows one in a transformer."""
    rows, width = g.size(40), g.pick([4, 8, 12, 16])
    table = g.constant(g.rng.standard_normal((rows, width)).astype("f4"))
    y = g.node("Gather", [table, g.index([1, g.size()], -rows, rows - 1)])
    if g.flag():
        scale = g.constant(np.ones(width, "f4"))
        y = g.node("LayerNormalization", [g.node("Add", [y, g.data([width])]), scale, scale])
    g.give(y)


def gather_elements(g: Graph) -> None:
    shape = _shape(g)
    axis = int(g.rng.integers(len(shape)))
    n = shape[axis]
    size = [g.size(n) for n in shape]
    places = g.index(size, -n, n - 1, g.pick(["i4", "i8"]))
    g.give(g.node("GatherElements", [g.data(shape), places], axis=axis))


def gather_nd(g: Graph) -> None:
    shape = _shape(g, 2)
    batch = int(g.rng.integers(0, 2))
    count = int(g.rng.integers(1, len(shape) - batch + 1))
    n = min(shape[batch : batch + count])
    places = g.index([*shape[:batch], *_shape(g, 1, 2), count], -n, n - 1)
    g.give(g.node("GatherND", [g.data(shape), places], batch_dims=batch))


def scatter_elements(g: Graph) -> None:
    shape = _shape(g)
    axis = int(g.rng.integers(len(shape)))
    size = [g.size(n) for n in shape]
    n = shape[axis]
    places = g.index(size, -n, n - 1, g.pick(["i4", "i8"]))
    given = [g.data(shape), places, g.data(size)]
    # In which order equal indices are written is not defined.
    g.give(g.node("ScatterElements", given, axis=axis, reduction=g.pick(_REDUCTIONS[1:])))


def scatter_nd(g: Graph) -> None:
    shape = _shape(g)
    count = int(g.rng.integers(1, len(shape) + 1))
    ahead = _shape(g, 1, 2)
    n = min(shape[:count])
    places = g.index([*ahead, count], -n, n - 1)
    given = [g.data(shape), places, g.data([*ahead, *shape[count:]])]
    g.give(g.node("ScatterND", given, reduction=g.pick(_REDUCTIONS[1:])))


def one_hot(g: Graph) -> None:
    depth = g.size()
    places = g.index(_shape(g, 1, 2), -depth, depth - 1)
    values = g.constant(np.array([0.5, 2], "f4"))
    g.give(g.node("OneHot", [places, g.constant(np.int64(depth)), values], axis=g.pick([-1, 0])))


def reverse_sequence(g: Graph) -> None:
    length, count = g.size(), g.size(4)
    lengths = g.index([count], 1, length)
    x = g.data([length, count, g.size(3)])
    g.give(g.node("ReverseSequence", [x, lengths], time_axis=0, batch_axis=1))


def recurrent(g: Graph) -> None:
    """A sequence of which each sample has a length of its own."""
    op, gates = g.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    length, batch, width, hidden = g.size(5), g.size(3), g.size(4), g.size(4)
    directions = g.pick([1, 2])
    w = g.constant(g.rng.standard_normal((directions, gates * hidden, width)).astype("f4"))
    r = g.constant(g.rng.standard_normal((directions, gates * hidden, hidden)).astype("f4"))
    lengths = g.index([batch], 0, length, "i4")
    x = g.data([length, batch, width])
    direction = "bidirectional" if directions == 2 else g.pick(["forward", "reverse"])
    y = g.node(op, [x, w, r, "", lengths], 2, hidden_size=hidden, direction=direction)
    g.give(*y)


def top_k_then_gather(g: Graph) -> None:
    """Indices that an operator makes."""
    n, k = g.size(), 1
    k = g.size(n)
    _, places = g.node("TopK", [g.data([2, n]), g.constant(np.array([k]))], 2, largest=int(g.flag()))
    g.give(g.node("GatherElements", [g.data([2, n]), places], axis=1))


def arg_max_then_gather(g: Graph) -> None:
    n, m = g.size(), g.size(4)
    places = g.node(g.pick(["ArgMax", "ArgMin"]), [g.data([m, n])], axis=1, keepdims=0)
    g.give(g.node("Gather", [g.data([n, 3]), places], axis=0))


def pair_of_gathers(g: Graph) -> None:
    """One index for two tables of different sizes."""
    n, m = g.size(), g.size()
    least = min(n, m)
    places = g.index([g.size()], -least, least - 1)
    ys = [g.node("Gather", [g.data([rows, 4]), places]) for rows in (n, m)]
    g.give(g.node("Add", ys))


def gather_of_gathered(g: Graph) -> None:
    """Indices that are gathered themselves."""
    n, m = g.size(), g.size()
    table = g.index([n], 0, m - 1)
    places = g.node("Gather", [table, g.index([g.size()], -n, n - 1)])
    g.give(g.node("Gather", [g.data([m, 2]), places]))


def in_branch(g: Graph) -> None:
    """Checked only where the branch is taken."""
    n = g.size()
    x, places, go = g.data([n, 3]), g.index([4], -n, n - 1), g.data([1], "?")
    number = len(g.nodes)
    taken = helper.make_graph(
        [helper.make_node("Gather", [x, places], [f"t{number}"], f"branch{number}")],
        "taken",
        [],
        [helper.make_tensor_value_info(f"t{number}", TensorProto.FLOAT, [4, 3])],
    )
    other = helper.make_graph(
        [
            helper.make_node(
                "Constant", [], [f"e{number}"], value=helper.make_tensor("e", 1, [4, 3], [0.0] * 12)
            )
        ],
        "other",
        [],
        [helper.make_tensor_value_info(f"e{number}", TensorProto.FLOAT, [4, 3])],
    )
    g.give(g.node("If", [g.node("Squeeze", [go])], then_branch=taken, else_branch=other))


def in_loop(g: Graph) -> None:
    """A loop whose rounds are given at run time, and that reads by a number that it counts on."""
    n, number = g.size(), len(g.nodes)
    x, start = g.data([n, 3]), g.index([], 0, n - 1)
    rounds = g.index([1], 0, 1)
    body = helper.make_graph(
        [
            helper.make_node("Gather", [x, f"at{number}"], [f"row{number}"], f"round{number}"),
            helper.make_node("Add", [f"sum{number}", f"row{number}"], [f"more{number}"]),
            helper.make_node("Identity", [f"go{number}"], [f"on{number}"]),
            helper.make_node("Add", [f"at{number}", f"one{number}"], [f"next{number}"]),
        ],
        "body",
        [
            helper.make_tensor_value_info(f"k{number}", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"go{number}", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"sum{number}", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info(f"at{number}", TensorProto.INT64, []),
        ],
        [
            helper.make_tensor_value_info(f"on{number}", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"more{number}", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info(f"next{number}", TensorProto.INT64, []),
        ],
        [helper.make_tensor(f"one{number}", TensorProto.INT64, [], [1])],
    )
    bounded = g.node("Min", [g.node("Squeeze", [rounds]), g.constant(np.int64(5))])
    y, _ = g.node("Loop", [bounded, "", g.constant(np.zeros(3, "f4")), start], 2, body=body)
    g.give(y)


def in_scan(g: Graph) -> None:
    """Steps over a sequence that each read a row."""
    n, steps, number = g.size(), g.size(4), len(g.nodes)
    x, places = g.data([n, 3]), g.index([steps], -n, n - 1)
    body = helper.make_graph(
        [
            helper.make_node("Gather", [x, f"at{number}"], [f"row{number}"], f"step{number}"),
            helper.make_node("Add", [f"sum{number}", f"row{number}"], [f"more{number}"]),
            helper.make_node("Identity", [f"row{number}"], [f"each{number}"]),
        ],
        "body",
        [
            helper.make_tensor_value_info(f"sum{number}", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info(f"at{number}", TensorProto.INT64, []),
        ],
        [
            helper.make_tensor_value_info(f"more{number}", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info(f"each{number}", TensorProto.FLOAT, [3]),
        ],
    )
    first = g.constant(np.zeros(3, "f4"))
    g.give(*g.node("Scan", [first, places], 2, body=body, num_scan_inputs=1))


def grid_sample(g: Graph) -> None:
    """Places that are floats, also those that are no numbers; the index is a whole place of the image."""
    h, w = g.size(), g.size()
    places = g.data([1, g.size(3), g.size(3), 2])
    scale = g.pick([0.5, 3.0, 1e20, 3e38])
    grid = g.node("Mul", [places, g.constant(np.float32(scale))])
    endless = g.flag()
    if endless:
        grid = g.node("Sub", [g.node("Mul", [grid, g.constant(np.float32(np.inf))]), grid])
    attributes = {
        "mode": g.pick(["bilinear", "nearest"]),
        "padding_mode": g.pick(["zeros", "border"]),
        "align_corners": int(g.flag()),
    }
    y = g.node("GridSample", [g.data([1, 2, h, w]), grid], **attributes)
    if endless or scale > 1e9:
        g.undefined.add(y)
    g.give(y)


def roi_align(g: Graph) -> None:
    batch, rois = g.size(3), g.size(3)
    numbers = g.index([rois], 0, batch - 1)
    boxes = g.node("Mul", [g.data([rois, 4]), g.constant(np.float32(g.pick([1, 10, 1e6])))])
    size = g.size(3)
    given = [g.data([batch, 2, 6, 6]), boxes, numbers]
    g.give(g.node("RoiAlign", given, output_height=size, output_width=size, sampling_ratio=2))


def dynamic_slice(g: Graph) -> None:
    n = g.size()
    start = g.index([1], 0, n - 1)
    end = g.node("Add", [start, g.constant(np.array([1]))])
    g.give(g.node("Slice", [g.data([n, 3]), start, end, g.constant(np.array([0]))]))


def dynamic_pad(g: Graph) -> None:
    pads = g.index([4], 0, 2)
    g.give(g.node("Pad", [g.data([3, 3]), pads]))


def dynamic_resize(g: Graph) -> None:
    sizes = g.index([4], 1, 4)
    g.give(g.node("Resize", [g.data([1, 1, 3, 3]), "", "", sizes]))


def dynamic_top_k(g: Graph) -> None:
    g.give(*g.node("TopK", [g.data([5]), g.index([1], 0, 5)], 2))


def dynamic_one_hot(g: Graph) -> None:
    depth = g.index([1], 1, 4)
    values = g.constant(np.array([0, 1], "f4"))
    g.give(g.node("OneHot", [g.data([3], "i8"), depth, values]))


def non_zero(g: Graph) -> None:
    g.give(g.node("NonZero", [g.data([4, 2])]))


def compress(g: Graph) -> None:
    g.give(g.node("Compress", [g.data([4, 2]), g.data([4], "?")], axis=0))


def unique(g: Graph) -> None:
    g.give(g.node("Unique", [g.data([6])]))


def non_max_suppression(g: Graph) -> None:
    boxes, scores = g.data([1, 5, 4]), g.data([1, 1, 5])
    limits = [g.constant(np.array([3])), g.constant(np.array([0.5], "f4"))]
    y = g.node("NonMaxSuppression", [boxes, scores, *limits])
    g.undefined.add(
        y
    )  # upstream's takes corners in one order alone; packages refuse it, as its size is the data's
    g.give(y)


def cum_sum(g: Graph) -> None:
    g.give(g.node("CumSum", [g.data([3, 4]), g.index([], -2, 1)]))


def trilu(g: Graph) -> None:
    g.give(g.node("Trilu", [g.data([4, 5]), g.index([], -3, 4)], upper=int(g.flag())))


def range_of(g: Graph) -> None:
    end = g.index([], 1, 5)
    g.give(g.node("Range", [g.constant(np.int64(0)), end, g.constant(np.int64(1))]))


def tile(g: Graph) -> None:
    g.give(g.node("Tile", [g.data([2, 3]), g.index([2], 1, 3)]))


def expand(g: Graph) -> None:
    g.give(g.node("Expand", [g.data([1, 3]), g.index([2], 3, 3)]))


def reshape(g: Graph) -> None:
    g.give(g.node("Reshape", [g.data([2, 6]), g.index([2], 2, 6)]))


def split(g: Graph) -> None:
    g.give(*g.node("Split", [g.data([6]), g.index([2], 3, 3)], 2))


def max_unpool(g: Graph) -> None:
    h = 2 * g.size(3)
    pooled = g.data([1, 1, h // 2, h // 2])
    places = g.index([1, 1, h // 2, h // 2], 0, h * h - 1)
    g.give(g.node("MaxUnpool", [pooled, places], kernel_shape=[2, 2], strides=[2, 2]))


def rotary(g: Graph) -> None:
    rows, heads, size, length = g.size(12), 2, 8, g.size(4)
    tables = [g.constant(g.rng.standard_normal((rows, size // 2)).astype("f4")) for _ in range(2)]
    places = g.index([1, length], 0, rows - 1)
    given = [g.data([1, heads, length, size]), places, *tables]
    g.give(g.node("RotaryEmbedding", given, domain="com.microsoft"))


def embed_layer_norm(g: Graph) -> None:
    rows, length = g.size(20), g.size(4)
    tables = [g.constant(g.rng.standard_normal((n, 8)).astype("f4")) for n in (rows, 6, 2)]
    scale = g.constant(np.ones(8, "f4"))
    words = g.index([1, length], 0, rows - 1, "i4")
    segments = g.index([1, length], 0, 1, "i4")
    y, _ = g.node(
        "EmbedLayerNormalization", [words, segments, *tables, scale, scale], 2, domain="com.microsoft"
    )
    g.give(y)


def product(g: Graph) -> None:
    """A product of two run-time tensors, whose kernel reads them where they lie, also transposed and broadcast."""
    rows, depth, columns = (int(g.pick(_TAILS)) for _ in range(3))
    lead = [g.size(3) for _ in range(g.pick([0, 1, 2]))]
    own = [n if g.flag() else 1 for n in lead]
    axes = [*range(len(lead)), len(lead) + 1, len(lead)]
    operands = [
        g.node("Transpose", [g.data([*front, columns, rows])], perm=axes)
        if g.flag()
        else g.data([*front, rows, columns])
        for front, rows, columns in ((lead, rows, depth), (own, depth, columns))
    ]
    y = g.node("MatMul", operands)
    if g.flag():
        y = g.node("Softmax", [g.node("Mul", [y, g.constant(np.float32(0.125))])], axis=-1)
    g.give(y)


def integer_product(g: Graph) -> None:
    """A product of run-time integers with zero points of run time, as dynamic quantisation gives them."""
    rows, depth, columns = (int(g.pick(_TAILS)) for _ in range(3))
    lead = [g.size(3)] if g.flag() else []
    types = g.pick([("u1", "i1"), ("i1", "i1"), ("u1", "u1")])
    points = [g.data([], kind) for kind in types]
    operands = [g.data([*lead, rows, depth], types[0]), g.data([*lead, depth, columns], types[1])]
    y = g.node("MatMulInteger", [*operands, *points])
    g.give(g.node("Cast", [y], to=TensorProto.FLOAT) if g.flag() else y)


OPERATORS: dict[str, Callable[[Graph], None]] = {
    function.__name__: function
    for function in (
        *(gather, embedding, gather_elements, gather_nd, scatter_elements, scatter_nd, one_hot),
        *(reverse_sequence, recurrent, top_k_then_gather, arg_max_then_gather, pair_of_gathers),
        *(gather_of_gathered, in_branch, in_loop, in_scan, grid_sample, roi_align, max_unpool, rotary),
        *(embed_layer_norm, trilu, product, integer_product),
    )
}
SIZES: dict[str, Callable[[Graph], None]] = {
    function.__name__: function
    for function in (
        *(dynamic_slice, dynamic_pad, dynamic_resize, dynamic_top_k, dynamic_one_hot, non_zero, compress),
        *(unique, non_max_suppression, range_of, tile, expand, reshape, split, cum_sum),
    )
}
"""Operators whose result has a shape that depends on the values."""
