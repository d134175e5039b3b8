# SPDX-License-Identifier: Apache-2.0
"""Merging of functions that differ in integers only into one function with expressions instead of these integers.

    f(x: [1, 40, 8]) = reshape(x, [40, 8]), g(x: [1, 48, 8]) = reshape(x, [48, 8])
        with 40 → n, 48 → n        f(x: [1, n, 8]) = reshape(x, [n, 8])

The functions are compared by the JSON graphs to which TVM serialises them, in which a shared object is one node.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm.ir import BaseFunc, Expr, GenericConst
from tvm.tirx import IntImm
from tvm_ffi import core, structural_map

from relay_passes.lengths.growing_constants import equal_tensors

Numbers = tuple[int, ...]

_INTEGER, _NUMBER = "ir.IntImm", "int"
# Variables are compared by identity, so that two variables of one function are never merged.
_VARIABLES = ("ir.Var", "relax.expr.DataflowVar")
_SPANS = ("ir.Span", "ir.SequentialSpan")
# kTVMFFIInt, kTVMFFIBool, kTVMFFIFloat: such fields hold a value, other fields the index of a node.
_RAW = (1, 2, 3)


class DifferentError(Exception):
    """Raised if functions differ in more than integers; the message names the first difference."""


class Graphs:
    """The serialised graphs of a function in several modules, compared node by node."""

    def __init__(self, functions: Sequence[BaseFunc]) -> None:
        self._constants: list[list[GenericConst]] = [[] for _ in functions]
        self._nodes, roots = [], []
        for func, constants in zip(functions, self._constants, strict=True):
            graph = json.loads(tvm.ir.save_json(_without_constants(func, constants)))
            self._nodes.append(graph["nodes"])
            roots.append(int(graph["root_index"]))
        self._root = tuple(roots)

    def differing(self) -> set[Numbers]:
        """Return the set of differing integers, each as a tuple of its values in all functions.

        Raises:
            DifferentError: The functions differ otherwise.
        """
        found: set[Numbers] = set()
        self._rebuilt(found.add)
        self._check_constants()
        return found

    def merged(self, expressions: Mapping[Numbers, Expr]) -> BaseFunc:
        """Return one function with `expressions` instead of the differing integers."""
        held: list[Expr] = []

        def place(numbers: Numbers) -> None:
            held.append(expressions[numbers])

        nodes, root = self._rebuilt(place)
        text = json.dumps({"root_index": root, "nodes": nodes, "metadata": {"tvm_version": tvm.__version__}})
        func = tvm.ir.load_json(text)
        constants = self._constants[0]

        def restored(constant: GenericConst) -> Expr:
            return constants[int(constant.value.numpy())] if _is_tensor(constant) else constant

        func = structural_map(func, [(GenericConst, restored)])
        return structural_map(func, [(IntImm, lambda number: _expression(number, held))])

    def _check_constants(self) -> None:
        first, *others = self._constants
        if not all(equal_tensors(first, other) for other in others):
            raise DifferentError("its constants differ")

    def _rebuilt(self, differs: Callable[[Numbers], None]) -> tuple[list[Any], int]:
        """Return (nodes of the merged graph, index of its root).

        Each differing integer is passed to `differs`, and replaced by a mark with the number of this call.
        """
        out: list[Any] = []
        known: dict[Numbers, int] = {}
        marks: dict[Numbers, int] = {}
        variables: dict[tuple[int, int], int] = {}

        def add(node: object) -> int:
            out.append(node)
            return len(out) - 1

        def visit(at: Numbers) -> int:
            if at in known:
                return known[at]
            nodes = [graph[index] for graph, index in zip(self._nodes, at, strict=True)]
            kind = nodes[0]["type"]
            if any(node["type"] != kind for node in nodes):
                raise DifferentError(
                    f"{kind} at one length, {next(n['type'] for n in nodes if n['type'] != kind)} at another"
                )
            if kind in _VARIABLES:
                for graph, index in enumerate(at):
                    if variables.setdefault((graph, index), at[0]) != at[0]:
                        raise DifferentError("different calls use a value")
            data = [node.get("data") for node in nodes]
            if kind == _INTEGER:
                numbers = tuple(int(self._nodes[g][d["value"]]["data"]) for g, d in enumerate(data))
                if len(set(numbers)) > 1:
                    if numbers not in marks:
                        marks[numbers] = len(marks)
                        differs(numbers)
                    value = add({"type": _NUMBER, "data": _MARK + marks[numbers]})
                    fields = {
                        "span": visit(tuple(d["span"] for d in data)),
                        "ty": visit(tuple(d["ty"] for d in data)),
                    }
                    known[at] = add({"type": kind, "data": {**fields, "value": value}})
                    return known[at]
            new = self._same(kind, data, visit)
            known[at] = add({"type": kind} if new is None else {"type": kind, "data": new})
            return known[at]

        return out, visit(self._root)

    def _same(self, kind: str, data: Sequence[Any], visit: Callable[[Numbers], int]) -> Any:
        first = data[0]
        if kind in ("ffi.Array", "ffi.List", "ffi.Map"):
            if len({len(each) for each in data}) > 1:
                raise DifferentError(f"a list has {' or '.join(str(len(each)) for each in data)} parts")
            return [visit(at) for at in zip(*data, strict=True)]
        if isinstance(first, dict):
            raw = _raw_fields(kind)
            if any(each.keys() != first.keys() for each in data):
                raise DifferentError(f"the fields of {kind} differ")
            fields = {}
            for name, value in first.items():
                values = tuple(each[name] for each in data)
                if name not in raw and type(value) is int:
                    fields[name] = visit(values)
                elif len(set(map(repr, values))) > 1 and kind not in _SPANS:
                    raise DifferentError(f"{name} of {kind} is {' or '.join(map(str, values))}")
                else:
                    fields[name] = value
            return fields
        if any(each != first for each in data):
            raise DifferentError(f"{kind} is {' or '.join(map(str, data))}"[:200])
        return first


_MARK = (1 << 60) + 0x5EED
"""Integers from here on stand for expressions, by index. It is larger than any number in models: a size, or the end
of a slice, which is often the greatest integer."""


def _expression(number: IntImm, held: Sequence[Expr]) -> Expr:
    index = int(number) - _MARK
    if not 0 <= index < len(held):
        return number
    expr = held[index]
    dtype = str(number.ty.dtype)
    return expr if str(expr.ty.dtype) == dtype else tvm.tirx.Cast(dtype, expr)


def _raw_fields(kind: str) -> frozenset[str]:
    if kind not in _FIELDS:
        info = core._lookup_or_register_type_info_from_type_key(kind)
        _FIELDS[kind] = frozenset(_fields_of(info))
    return _FIELDS[kind]


_FIELDS: dict[str, frozenset[str]] = {}


def _fields_of(info: Any) -> Iterator[str]:
    while info is not None:
        yield from (field.name for field in info.fields if field.field_static_type_index in _RAW)
        info = info.parent_type_info


def _is_tensor(constant: GenericConst) -> bool:
    return isinstance(constant.value, tvm.runtime.Tensor)


def _without_constants(func: BaseFunc, constants: list[GenericConst]) -> BaseFunc:
    """Return a copy of the function with constant tensors replaced by indices; append them to `constants`."""

    def number(constant: GenericConst) -> GenericConst:
        if not _is_tensor(constant):
            return constant
        constants.append(constant)
        index = tvm.runtime.tensor(np.array(len(constants) - 1, "int64"))
        return GenericConst(index, constant.ty)

    return structural_map(func, [(GenericConst, number)])
