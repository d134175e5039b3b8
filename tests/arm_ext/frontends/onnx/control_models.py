# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models that decide at run time."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
CLASSES = 5


def value(name: str, shape: Sequence[int] = (4,), kind: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def number(name: str, kind: int = INT64) -> ValueInfoProto:
    return value(name, (), kind)


def constants(**arrays: npt.ArrayLike) -> list[TensorProto]:
    return [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]


def weights(*shape: int, scale: float = 0.3) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(np.float32)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    **arrays: npt.ArrayLike,
) -> GraphProto:
    return helper.make_graph(nodes, "g", inputs, outputs, constants(**arrays))


def model(body: GraphProto, **domains: int) -> ModelProto:
    opsets = [helper.make_opsetid(domain, version) for domain, version in {"": 17, **domains}.items()]
    made = helper.make_model(body, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(made)
    return made


def _head(x: str, w: str, y: str) -> list[NodeProto]:
    return [
        node("GlobalAveragePool", [x], [f"{y}_mean"]),
        node("Flatten", [f"{y}_mean"], [f"{y}_flat"]),
        node("Gemm", [f"{y}_flat", w], [f"{y}_logits"]),
        node("Softmax", [f"{y}_logits"], [y]),
    ]


def early_exit() -> ModelProto:
    """A network with two heads: where the first is sure of its answer, the second half is not run."""
    early = graph([node("Identity", ["first"], ["same"])], [], [value("same", (1, CLASSES))])
    deep = [
        node("Conv", ["features", "w2"], ["deep"], "deep", pads=[1] * 4),
        node("Relu", ["deep"], ["deep_relu"]),
        *_head("deep_relu", "head2", "second"),
    ]
    late = graph(
        deep, [], [value("second", (1, CLASSES))], w2=weights(16, 8, 3, 3), head2=weights(16, CLASSES)
    )
    nodes = [
        node("Conv", ["x", "w1"], ["stem"], "stem", pads=[1] * 4),
        node("Relu", ["stem"], ["features"]),
        *_head("features", "head1", "first"),
        node("ReduceMax", ["first"], ["most"], keepdims=0),
        node("Less", ["enough", "most"], ["sure"]),
        node("If", ["sure"], ["p"], "exit", then_branch=early, else_branch=late),
        node("ArgMax", ["p"], ["label"], axis=1),
    ]
    return model(
        graph(
            nodes,
            [value("x", (1, 3, 16, 16))],
            [value("p", (1, CLASSES)), value("label", (1, 1), INT64)],
            w1=weights(8, 3, 3, 3),
            head1=weights(8, CLASSES, scale=3.0),
            enough=np.float32(0.9),
        )
    )


def early_exit_inputs() -> tuple[np.ndarray, np.ndarray]:
    """A frame that the first head is sure of, and one that it is not."""
    frame = np.random.default_rng(7).standard_normal((1, 3, 16, 16)).astype(np.float32)
    return frame * 20, frame / 20


def doubling() -> ModelProto:
    """x doubled until its sum is no longer below a limit, at most M times; and how often that was."""
    rounds = [
        node("Mul", ["s", "two"], ["s1"]),
        node("ReduceSum", ["s1"], ["total"], keepdims=0),
        node("Less", ["total", "limit"], ["go"]),
        node("Add", ["k", "one"], ["k1"]),
    ]
    body = graph(
        rounds,
        [number("i"), number("c", BOOL), value("s"), number("k")],
        [number("go", BOOL), value("s1"), number("k1")],
        one=np.int64(1),
        two=np.float32(2),
    )
    loop = node("Loop", ["M", "", "x", "zero"], ["grown", "count"], "grow", body=body)
    nodes = [loop, node("Relu", ["grown"], ["y"])]
    return model(
        graph(
            nodes,
            [value("x"), number("M"), number("limit", FLOAT)],
            [value("y"), number("count")],
            zero=np.int64(0),
        )
    )


def alternating() -> ModelProto:
    """In rounds of even number exp(x) is added, in others x subtracted: a choice in a loop, of values from outside."""
    even = graph([node("Add", ["s", "outer"], ["more"])], [], [value("more")])
    odd = graph([node("Sub", ["s", "x"], ["less"])], [], [value("less")])
    rounds = [
        node("Mod", ["i", "two"], ["rest"]),
        node("Equal", ["rest", "none"], ["is_even"]),
        node("If", ["is_even"], ["s1"], "parity", then_branch=even, else_branch=odd),
        node("ReduceSum", ["s1"], ["total"], keepdims=0),
        node("Less", ["total", "limit"], ["below"]),
        node("And", ["below", "c"], ["go"]),
    ]
    body = graph(
        rounds,
        [number("i"), number("c", BOOL), value("s")],
        [number("go", BOOL), value("s1")],
        two=np.int64(2),
        none=np.int64(0),
    )
    nodes = [
        node("Exp", ["x"], ["outer"]),
        node("Loop", ["M", "begin", "x"], ["y"], "alternate", body=body),
    ]
    inputs = [value("x"), value("M", (1,), INT64), number("limit", FLOAT), number("begin", BOOL)]
    return model(graph(nodes, inputs, [value("y")]))


def counting(rounds: int) -> ModelProto:
    """x plus 1 each round, and a row of each."""
    steps = [
        node("Add", ["s", "one"], ["s1"]),
        node("Mul", ["s1", "s1"], ["row"]),
        node("Identity", ["c"], ["go"]),
    ]
    body = graph(
        steps,
        [number("i"), number("c", BOOL), value("s")],
        [number("go", BOOL), value("s1"), value("row")],
        one=np.float32(1),
    )
    loop = node("Loop", ["M", "", "x"], ["y", "rows"], "count", body=body)
    return model(graph([loop], [value("x")], [value("y"), value("rows", (rounds, 4))], M=np.int64(rounds)))


def scanning(steps: int) -> ModelProto:
    """A Scan along two axes, forward and backward, with outputs along two axes, forward and backward."""
    inner = [
        node("Add", ["s", "a"], ["s1"]),
        node("Mul", ["s1", "b"], ["r"]),
        node("Identity", ["s1"], ["q"]),
    ]
    body = graph(
        inner,
        [value(name, (2,)) for name in ("s", "a", "b")],
        [value(name, (2,)) for name in ("s1", "r", "q")],
    )
    scan = node(
        "Scan",
        ["s0", "A", "B"],
        ["y", "R", "Q"],
        "scan",
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[0, 1],
        scan_input_directions=[0, 1],
        scan_output_axes=[1, 0],
        scan_output_directions=[0, 1],
    )
    inputs = [value("s0", (2,)), value("A", (steps, 2)), value("B", (2, steps))]
    return model(graph([scan], inputs, [value("y", (2,)), value("R", (2, steps)), value("Q", (steps, 2))]))


def quantised_exit() -> ModelProto:
    """A quantised convolution whose value goes on, quantised, into a branch with another one."""
    rng = np.random.default_rng(3)
    held: dict[str, npt.ArrayLike] = {"zero": np.int8(0), "step": np.float32(0.0625), "enough": np.float32(9)}

    def quantised(x: str, y: str) -> list[NodeProto]:
        return [
            node("QuantizeLinear", [x, "step", "zero"], [f"{y}_q"]),
            node("DequantizeLinear", [f"{y}_q", "step", "zero"], [y]),
        ]

    def convolution(x: str, w: str, y: str, channels: tuple[int, int]) -> list[NodeProto]:
        held[w] = rng.integers(-40, 40, (*channels, 3, 3), dtype=np.int8)
        return [
            node("DequantizeLinear", [w, "step", "zero"], [f"{w}_d"]),
            node("Conv", [x, f"{w}_d"], [f"{y}_f"], f"{y}_conv", pads=[1] * 4),
            *quantised(f"{y}_f", y),
        ]

    shape = (1, 8, 8, 8)
    then = graph([node("Identity", ["a"], ["same"])], [], [value("same", shape)])
    late = graph(convolution("a", "w2", "b", (8, 8)), [], [value("b", shape)])
    nodes = [
        *quantised("x", "x_d"),
        *convolution("x_d", "w1", "a", (8, 4)),
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Less", ["enough", "most"], ["sure"]),
        node("If", ["sure"], ["y"], "exit", then_branch=then, else_branch=late),
    ]
    return model(graph(nodes, [value("x", (1, 4, 8, 8))], [value("y", shape)], **held))
