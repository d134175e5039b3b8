# SPDX-License-Identifier: Apache-2.0
"""Programs of several calls or sizes: models with states, which `step` keeps, and models of any length up to a bound.

They are compiled as packages are. Their inputs are right and wrong as those of graphs are; a wrong call stands between
right ones, which must give what they would without it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from tests.fuzz.memory_graphs import WRONG, Array, Graph

Call = list[Array]


@dataclass
class Program:
    """A model and how it is called.

    Attributes:
        name: Of what it is an example.
        model: In ONNX.
        states: Input → output that is its next value.
        shapes: As `--shape` gives them; empty for those of the model.
        calls: What one virtual machine is called with, for each of several.
        wrong: By the place of a machine and of its call, what is wrong with it.
        too_long: The places of calls that are longer than the bound.
    """

    name: str
    model: onnx.ModelProto
    states: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    calls: list[list[Call]] = field(default_factory=list)
    wrong: dict[tuple[int, int], str] = field(default_factory=dict)
    too_long: set[tuple[int, int]] = field(default_factory=set)

    @property
    def function(self) -> str:
        """Which of the model's functions is called."""
        return "step" if self.states else "main"

    def expected(self) -> Iterator[list[list[Array] | None]]:
        """For each machine what onnxruntime gives for each call; None for an error, which leaves states as they are."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            self.model.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        inputs = session.get_inputs()
        outputs = [output.name for output in session.get_outputs()]
        fresh = {
            each.name: np.zeros(each.shape, "i8" if "int64" in each.type else "f4")
            for each in inputs
            if each.name in self.states
        }
        names = [each.name for each in inputs if each.name not in self.states]
        for calls in self.calls:
            held, answers = dict(fresh), []
            for call in calls:
                try:
                    given = dict(zip(names, call, strict=True)) | held
                    values = dict(zip(outputs, session.run(None, given), strict=True))
                except Exception:  # its classes are not documented
                    answers.append(None)
                    continue
                held = {name: values[output] for name, output in self.states.items()}
                answers.append([value for name, value in values.items() if name not in self.states.values()])
            yield answers


def _value(name: str, dtype: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def _model(
    g: Graph,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
) -> onnx.ModelProto:
    graph = helper.make_graph([*g.nodes, *nodes], "program", inputs, outputs, g.constants)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _steps(
    g: Graph, program: Program, draw: Callable[[bool], Call], place: int, low: int, high: int
) -> Program:
    """Three right calls in one machine; and, in others, a wrong one between right ones.

    Args:
        g: Whose random numbers are taken.
        program: Gets the calls.
        draw: Returns right inputs; at the edges where it is told so.
        place: Which of the inputs is the index.
        low: The least right index.
        high: The greatest.
    """
    program.calls.append([draw(False), draw(True), draw(False)])
    for kind in g.rng.choice(sorted(WRONG), 4, replace=False):
        calls = [draw(False), draw(g.flag()), draw(True)]
        limits = np.iinfo(calls[1][place].dtype)
        value = min(max(int(WRONG[kind](low, high)), int(limits.min)), int(limits.max))
        calls[1][place].reshape(-1)[-1] = value
        program.wrong[len(program.calls), 1] = str(kind)
        program.calls.append(calls)
    return program


def state_cache(g: Graph) -> Program:
    """Rows of a state that are written and read by an index, as a cache of keys and values is."""
    rows, width = g.size(), g.pick([1, 3, 4, 8])
    table = g.constant(np.zeros((1, 1), "i8"))
    nodes = [
        helper.make_node("Reshape", ["at", g.constant(np.array([1, 1]))], ["places"], "flat"),
        helper.make_node("Add", ["places", table], ["moved"], "moved"),
        helper.make_node("ScatterND", ["cache", "moved", "row"], ["next"], "write"),
        helper.make_node("Gather", ["next", "at"], ["y"], "read"),
    ]
    cache: list[int | str] = [rows, width]
    inputs = [_value("at", "i8", [1]), _value("row", "f4", [1, width]), _value("cache", "f4", cache)]
    outputs = [_value("y", "f4", [1, width]), _value("next", "f4", cache)]
    program = Program("state: cache", _model(g, nodes, inputs, outputs), {"cache": "next"})

    def draw(edges: bool) -> Call:
        at = g.pick([-rows, rows - 1]) if edges else int(g.rng.integers(-rows, rows))
        return [np.array([at]), g.rng.standard_normal((1, width)).astype("f4")]

    return _steps(g, program, draw, 0, -rows, rows - 1)


def state_counter(g: Graph) -> Program:
    """A state that is an index itself: steps that add up to more than there is."""
    rows, width = g.size(6), g.pick([1, 4, 5])
    nodes = [
        helper.make_node("Gather", ["x", "at"], ["y"], "read"),
        helper.make_node("Add", ["at", "by"], ["next"], "count"),
    ]
    inputs = [_value("x", "f4", [rows, width]), _value("by", "i8", [1]), _value("at", "i8", [1])]
    outputs = [_value("y", "f4", [1, width]), _value("next", "i8", [1])]
    program = Program("state: counter", _model(g, nodes, inputs, outputs), {"at": "next"})
    for _ in range(4):
        calls = [
            [g.rng.standard_normal((rows, width)).astype("f4"), np.array([int(g.rng.integers(-2, 4))])]
            for _ in range(4)
        ]
        for call in range(1, 4):
            program.wrong[len(program.calls), call] = "sum of steps"
        program.calls.append(calls)
    calls = [[np.ones((rows, width), "f4"), np.array([by])] for by in (2**62, 2**62, 1)]
    program.wrong[len(program.calls), 1] = "2^62"
    program.wrong[len(program.calls), 2] = "2^63"
    program.calls.append(calls)
    return program


def _lengths(g: Graph, program: Program, draw: Callable[[int], Call], bound: int) -> None:
    """Calls of all kinds of lengths, and of ones beyond the bound."""
    program.calls.append([draw(n) for n in sorted({1, 2, 7, bound - 1, bound})])
    program.calls.append([draw(int(n)) for n in g.rng.integers(1, bound + 1, 4)])
    at = len(program.calls)
    program.calls.append([draw(bound), draw(bound + 1), draw(1), draw(bound + 16)])
    program.too_long |= {(at, 1), (at, 3)}


def _wrong_in(
    g: Graph, program: Program, draw: Callable[[int], Call], place: int, low: int, bound: int
) -> None:
    for kind in g.rng.choice(sorted(WRONG), 4, replace=False):
        n = int(g.rng.integers(1, bound + 1))
        calls = [draw(n), draw(n), draw(bound)]
        high = n - 1 if low < 0 else low
        limits = np.iinfo(calls[1][place].dtype)
        value = float(WRONG[kind](-high - 1, high))
        calls[1][place].reshape(-1)[-1] = int(np.clip(value, limits.min, limits.max // 2))
        program.wrong[len(program.calls), 1] = str(kind)
        program.calls.append(calls)


def length_embedding(g: Graph) -> Program:
    """Tokens of any number, embedded by a table, and attention among them."""
    rows, width, bound = g.size(30), g.pick([4, 8]), g.pick([8, 9, 16, 31])
    table = g.constant(g.rng.standard_normal((rows, width)).astype("f4"))
    scale, bias = (g.constant(np.ones(width, "f4")), g.constant(np.zeros(width, "f4")))
    nodes = [
        helper.make_node("Gather", [table, "ids"], ["e"], "embed"),
        helper.make_node("LayerNormalization", ["e", scale, bias], ["n"], "norm"),
        helper.make_node("Transpose", ["n"], ["t"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["n", "t"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "softmax", axis=-1),
        helper.make_node("MatMul", ["p", "n"], ["y"], "mix"),
    ]
    model = _model(g, nodes, [_value("ids", "i8", [1, "n"])], [_value("y", "f4", [1, "n", width])])
    program = Program("length: embedding", model, shapes={"ids": (1, f"n<={bound}")})

    def draw(n: int) -> Call:
        return [g.rng.integers(-rows, rows, (1, n))]

    _lengths(g, program, draw, bound)
    _wrong_in(g, program, draw, 0, rows - 1, bound)
    return program


def length_gather(g: Graph) -> Program:
    """Elements taken from an axis of any length: what is out of bounds follows from the length."""
    width, count, bound = g.pick([1, 4, 6]), g.size(4), g.pick([8, 9, 24])
    op, kind = g.pick(["Gather", "GatherElements", "GatherND"]), g.pick(["i4", "i8"])
    if op == "GatherND":
        kind, places, taken, axis = "i8", [1, count, 1], [1, count, width], {"batch_dims": 1}
    else:
        places = [count] if op == "Gather" else [1, count, width]
        taken, axis = [1, count, width], {"axis": g.pick([1, -2])}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node(op, ["r", "at"], ["y"], "rows", **axis),
    ]
    inputs = [_value("x", "f4", [1, "n", width]), _value("at", kind, places)]
    model = _model(g, nodes, inputs, [_value("y", "f4", taken)])
    program = Program(f"length: {op}", model, shapes={"x": (1, f"n<={bound}", width)})

    def draw(n: int) -> Call:
        at = g.rng.integers(-n, n, places).astype(kind)
        return [g.rng.standard_normal((1, n, width)).astype("f4"), at]

    _lengths(g, program, draw, bound)
    _wrong_in(g, program, draw, 1, -1, bound)
    return program


def length_scatter(g: Graph) -> Program:
    """Elements put into an axis of any length."""
    bound, width = g.pick([8, 9, 24]), g.pick([1, 5])
    op = g.pick(["ScatterElements", "ScatterND"])
    put = [1, width]
    places = put if op == "ScatterElements" else [1, 1]
    nodes = [helper.make_node(op, ["x", "at", "u"], ["y"], "put")]
    inputs = [_value("x", "f4", ["n", width]), _value("at", "i8", places), _value("u", "f4", put)]
    model = _model(g, nodes, inputs, [_value("y", "f4", ["n", width])])
    program = Program(f"length: {op}", model, shapes={"x": (f"n<={bound}", width)})

    def draw(n: int) -> Call:
        x, u = (g.rng.standard_normal((k, width)).astype("f4") for k in (n, 1))
        return [x, g.rng.integers(-n, n, places), u]

    _lengths(g, program, draw, bound)
    _wrong_in(g, program, draw, 1, -1, bound)
    return program


PROGRAMS: tuple[Callable[[Graph], Program], ...] = (
    state_cache,
    state_counter,
    length_embedding,
    length_gather,
    length_scatter,
)
