# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs whose operators take indices, sizes or offsets at run time, and values for these.

An operator says which values of an index are right; of a graph's lists of inputs the first are right, also at the
edges, and each of the others has one index that is not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray
_TYPES = {
    np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in ("f4", "i4", "i8", "u1", "i1", "?")
}
OPSET = 18
WRONG: dict[str, Callable[[int, int], float]] = {
    "low - 1": lambda low, _high: low - 1,
    "high + 1": lambda _low, high: high + 1,
    "high + 16": lambda _low, high: high + 16,
    "-2^31": lambda _low, _high: -(2**31),
    "2^31 - 1": lambda _low, _high: 2**31 - 1,
    "2^31": lambda _low, _high: 2**31,
    "2^32": lambda _low, _high: 2**32,
    "-2^62": lambda _low, _high: -(2**62),
    "2^62": lambda _low, _high: 2**62,
    "-2^63": lambda _low, _high: -(2**63),
    "2^63 - 1": lambda _low, _high: 2**63 - 1,
}
"""Values that are not right, by what they are called."""
BEYOND_INT32 = ("2^31", "2^31 - 1", "2^32", "-2^62", "2^62", "-2^63", "2^63 - 1")
FLOATS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e30": 1e30, "-1e30": -1e30}


@dataclass(frozen=True)
class Input:
    """An input of a graph.

    Attributes:
        name: Its name.
        shape: Its shape.
        dtype: Its element type.
        right: The least and the greatest right index; None for data.
        operator: What it is an index of.
        form: How it becomes an index.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    right: tuple[int, int] | None = None
    operator: str = ""
    form: str = ""


@dataclass
class Graph:
    """A graph in the making; outputs in `undefined` have values that runtimes differ in."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    operator: str = ""
    undefined: set[str] = field(default_factory=set)

    def pick(self, options: Sequence[Any]) -> Any:
        """One of them."""
        return options[int(self.rng.integers(len(options)))]

    def flag(self) -> bool:
        """True or false."""
        return bool(self.rng.integers(2))

    def size(self, most: int = 9) -> int:
        """A size from 1."""
        return int(self.rng.integers(1, most + 1))

    def data(self, shape: Sequence[int], dtype: str = "f4") -> str:
        """An input of data, or what an operator made of one."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(Input(name, tuple(shape), np.dtype(dtype)))
        return self.node("Relu", [name]) if dtype == "f4" and self.pick([True, False, False]) else name

    def constant(self, value: Any) -> str:
        """A constant."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def index(self, shape: Sequence[int], low: int, high: int, dtype: str = "i8") -> str:
        """An index, from an input or from what is computed of one."""
        form = self.pick(sorted(FORMS))
        name = f"i{len(self.inputs)}"
        given, change, shift = FORMS[form](self, np.dtype(dtype), low, high)
        right = (low + shift, high + shift)
        self.inputs.append(Input(name, tuple(shape), given, right, self.operator, form))
        return change(name)

    def node(
        self, op: str, inputs: Sequence[str], count: int = 1, domain: str = "", **attributes: Any
    ) -> Any:
        """A node; returns its output, or all of several."""
        outputs = [f"v{len(self.nodes)}_{k}" for k in range(count)]
        self.nodes.append(
            helper.make_node(op, inputs, outputs, f"n{len(self.nodes)}", domain=domain, **attributes)
        )
        return outputs[0] if count == 1 else outputs

    def give(self, *names: str) -> None:
        """Return values; some after one more operator."""
        self.outputs += names

    def model(self) -> onnx.ModelProto:
        """The model."""
        values = [helper.make_tensor_value_info(i.name, _TYPES[i.dtype], i.shape) for i in self.inputs]
        graph = helper.make_graph(
            self.nodes,
            "memory",
            values,
            [onnx.ValueInfoProto(name=name) for name in self.outputs],
            self.constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8))


_Form = tuple[np.dtype[Any], Callable[[str], str], int]


def _plain(g: Graph, dtype: np.dtype[Any], low: int, high: int) -> _Form:
    return dtype, lambda name: name, 0


def _cast(g: Graph, dtype: np.dtype[Any], low: int, high: int) -> _Form:
    given = np.dtype("i4" if dtype == np.int64 else "i8")
    return given, lambda name: g.node("Cast", [name], to=_TYPES[dtype]), 0


def _shifted(g: Graph, dtype: np.dtype[Any], low: int, high: int) -> _Form:
    shift = int(g.rng.integers(-20, 20))
    return dtype, lambda name: g.node("Sub", [name, g.constant(np.asarray(shift, dtype))]), shift


def _clipped(g: Graph, dtype: np.dtype[Any], low: int, high: int) -> _Form:
    limits = [g.constant(np.asarray(limit, dtype)) for limit in (low, high)]
    return dtype, lambda name: g.node("Clip", [name, *limits]), 0


def _modulo(g: Graph, dtype: np.dtype[Any], low: int, high: int) -> _Form:
    size = g.constant(np.asarray(max(high, 0) + 1, dtype))
    return dtype, lambda name: g.node("Mod", [name, size]), 0


def _negated(g: Graph, dtype: np.dtype[Any], low: int, high: int) -> _Form:
    """Twice, so that the least integer wraps around."""
    return dtype, lambda name: g.node("Neg", [g.node("Neg", [name])]), 0


def _float(g: Graph, dtype: np.dtype[Any], low: int, high: int) -> _Form:
    return np.dtype("f4"), lambda name: g.node("Cast", [name], to=_TYPES[dtype]), 0


def _summed(g: Graph, dtype: np.dtype[Any], low: int, high: int) -> _Form:
    """With data of the same input: what is read, it reads again."""
    half = g.constant(np.asarray(0, dtype))
    return dtype, lambda name: g.node("Add", [name, g.node("Mul", [name, half])]), 0


FORMS: dict[str, Callable[[Graph, np.dtype[Any], int, int], _Form]] = {
    "as given": _plain,
    "cast": _cast,
    "shifted": _shifted,
    "clipped": _clipped,
    "modulo": _modulo,
    "negated": _negated,
    "of a float": _float,
    "summed": _summed,
}
"""How an index follows from an input."""


@dataclass(frozen=True)
class Batch:
    """A list of inputs: what is wrong in it, "" for nothing, and of which operator's index in which form."""

    inputs: list[Array]
    wrong: str = ""
    operator: str = ""
    form: str = ""


def batches(g: Graph) -> list[Batch]:
    """Lists of inputs: right ones, right ones at the edges, and some with one wrong index each."""
    found = [Batch(_values(g, edges=False)), Batch(_values(g, edges=True))]
    for place, given in enumerate(g.inputs):
        if given.right is None:
            continue
        kinds = sorted(WRONG) + (sorted(FLOATS) if given.dtype.kind == "f" else [])
        for kind in g.rng.choice(kinds, 3, replace=False):
            inputs = _values(g, edges=g.flag())
            value = FLOATS.get(kind)
            value = WRONG[kind](*given.right) if value is None else value
            if given.dtype.kind != "f":
                limits = np.iinfo(given.dtype)
                value = min(max(int(value), int(limits.min)), int(limits.max))
            if inputs[place].size:
                at = int(g.rng.integers(inputs[place].size))
                inputs[place].reshape(-1)[at if g.flag() else -1] = value
                if g.pick([False, False, True]):
                    inputs[place][...] = value
            found.append(Batch(inputs, str(kind), given.operator, given.form))
    return found


def _values(g: Graph, edges: bool) -> list[Array]:
    return [_value(g, given, edges) for given in g.inputs]


def _value(g: Graph, given: Input, edges: bool) -> Array:
    if given.right is None:
        if given.dtype.kind == "f":
            return g.rng.standard_normal(given.shape).astype(given.dtype)
        if given.dtype.kind == "b":
            return g.rng.integers(0, 2, given.shape).astype(bool)
        return g.rng.integers(0, 100, given.shape).astype(given.dtype)
    low, high = given.right
    if edges:
        return g.rng.choice([low, high], given.shape).astype(given.dtype)
    return g.rng.integers(low, high + 1, given.shape).astype(given.dtype)
