# SPDX-License-Identifier: Apache-2.0
"""Parsing of an integer graph of the numerics `tosa` into NPU operators.

requantize(add(conv2d(pad(x, zp), W), offset))    →    one conv2d with padding, bias and RESCALE
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, TupleGetItem, Var

from arm_ext.ethosu.integer_ops import LONG, bits_shifted, index_of, kind_of
from arm_ext.ethosu.operators import Graph, Operator, Tensor, Unread
from arm_ext.ethosu.ranges import COMPUTED, Range, range_of
from arm_ext.ethosu.reading import Array, read_by, shape_of, variables
from arm_ext.ethosu.sums import average_of, counts_padding, over_windows, sum_of
from arm_ext.ethosu.unsupported import unread
from relay_passes.ir.sources import bindings_of, sources_of, union

_BINARY = ("tosa.add", "tosa.subtract", "tosa.multiply", "tosa.maximum", "tosa.minimum")


def read(mod: IRModule) -> Graph:
    """Parse `main`, in A-normal form with static shapes, as the phase `integerize` leaves it."""
    return _Reader(mod).graph()


class _Reader:
    """One function."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._main = mod["main"]
        self._definitions: dict[Var, Expr] = {b.var: b.value for b in bindings_of(self._main)}
        self._results = tuple(variables([self._main.body.body]))
        self._uses = Counter(self._results)
        self._readers: dict[Var, list[Expr]] = {}
        for value in self._definitions.values():
            read_here = read_by(value)
            self._uses.update(read_here)
            for var in dict.fromkeys(read_here):
                self._readers.setdefault(var, []).append(value)

    def graph(self) -> Graph:
        """Return all operators, and the calls that are no operators."""
        found: list[Operator] = []
        covered: set[Var] = set()
        # From the end: what an operator takes in is none of its own.
        for var, value in reversed(self._definitions.items()):
            if var not in covered and (operator := self._operator(var, value)):
                found.insert(0, operator)
                covered.update(operator.bindings)
        left = {var: value for var, value in self._definitions.items() if var not in covered}
        others = [self._unread(var, value) for var, value in left.items() if isinstance(value, Call)]
        reads = {var: tuple(read_by(value)) for var, value in self._definitions.items()}
        return Graph(tuple(found), tuple(others), tuple(self._main.params), self._results, reads)

    def routine(self, value: Expr) -> Mapping[str, Any] | None:
        """Return the attributes of the routine that a call_tir calls."""
        if not isinstance(value, Call) or getattr(value.op, "name", "") != "relax.call_tir":
            return None
        attrs = self._mod[value.args[0]].attrs
        return dict(attrs.items()) if attrs and "numerics" in attrs else None

    def single(self, expr: Expr) -> Call | None:
        """Return the call that computes a variable, if the variable has one use; else None."""
        value = self._definitions.get(expr) if isinstance(expr, Var) else None
        return value if isinstance(value, Call) and self._uses[expr] == 1 else None

    def _operator(self, var: Var, value: Expr) -> Operator | None:
        if isinstance(value, TupleGetItem):
            return self._part(var, value)
        if not isinstance(value, Call) or not _is_integer(var):
            return None
        attrs = self.routine(value)
        match None if attrs is None else str(attrs["numerics"]):
            case None:
                return self._plain(var, value)
            case "tosa.requantize":
                return self._sum(var, value, attrs or {})
            case name if name in _BINARY:
                return _binary(var, value, attrs or {})
            case "qdq.table":
                x, table = value.args[1].fields
                return _made("table", var, value, [x], {"table": table.value.numpy()})
            case "tosa.table":
                x, table = value.args[1].fields
                given = {**_integers(attrs or {}), "table": table.value.numpy()}
                return _made("table", var, value, [x], given)
            case "tosa.rescale":
                return _made("rescale", var, value, [value.args[1].fields[0]], _integers(attrs or {}))
            case "tosa.softmax":
                x, e, r = value.args[1].fields
                tables = {"exponentials": e.value.numpy(), "reciprocals": r.value.numpy()}
                return _made("softmax", var, value, [x], {**_integers(attrs or {}), **tables})
            case "tosa.resize":
                first = {"channels_first": str((attrs or {})["layout"]) == "NCHW"}
                return _made("resize", var, value, value.args[1].fields, {**_integers(attrs or {}), **first})
        return None

    def _part(self, var: Var, item: TupleGetItem) -> Operator | None:
        """One part of a split; the split itself is its own in each."""
        split = self._definitions.get(item.tuple_value)
        if not isinstance(split, Call) or split.op.name != "relax.split" or not _is_integer(var):
            return None
        made = _made("split", var, split, [split.args[0]], {"index": int(item.index)})
        return replace(made, bindings=(item.tuple_value, var))

    def _plain(self, var: Var, value: Call) -> Operator | None:
        """An operator that moves integers, picks among them, or computes with them as Relax does."""
        if (found := index_of(value, self.single)) is not None:
            index, call = found
            made = _made(str(call.op.name).removeprefix("relax."), var, call, [call.args[0]], {})
            return replace(made, bindings=(index, var))
        if (bits := bits_shifted(value, self.single)) is not None:
            shift, (before, after) = bits
            bounds = {"ranges": self._ranges(shift)}
            made = _made("logical_right_shift", var, shift, self._definitions[before].args, bounds)
            return replace(made, bindings=(before, after, var))
        inputs = read_by(value)
        reads = [self._definitions.get(x) for x in inputs]
        kind = kind_of(value, reads, self._read_by_others(var))
        if kind is None or not inputs or not all(_is_integer(x) for x in inputs):
            return None
        given = dict[str, Any]()
        if kind in ("nn.max_pool2d", "image.resize2d"):
            given["channels_first"] = str(value.attrs.layout) == "NCHW"
        if kind in COMPUTED:
            given["ranges"] = self._ranges(value)
        return _made(kind, var, value, inputs, given)

    def _ranges(self, call: Call) -> tuple[Range, ...]:
        """What each operand of a call can be."""
        args = [arg for arg in call.args if isinstance(arg, Var | GenericConst)]
        return tuple(range_of(arg, self._definitions.get(arg)) for arg in args)

    def _sum(self, var: Var, value: Call, attrs: Mapping[str, Any]) -> Operator | None:
        total, multiplier = value.args[1].fields
        chain = [(var, value)]
        call, bias = self.single(total), np.zeros(1, np.int64)
        if (
            call is not None
            and getattr(call.op, "name", "") == "relax.add"
            and isinstance(call.args[1], GenericConst)
        ):
            chain.insert(0, (total, call))
            total, bias = call.args[0], call.args[1].value.numpy().astype(np.int64)
            call = self.single(total)
            if call is not None and call.op.name == "relax.astype":
                # Accumulators whose bias alone needs more bits.
                chain.insert(0, (total, call))
                total, call = call.args[0], self.single(call.args[0])
        found = None if call is None else sum_of(call, self)
        if call is None or found is None:
            return None
        if attrs["average"] and over_windows(found) and not counts_padding(found, multiplier.value.numpy()):
            found = average_of(found, bias)
        chain = [*found.covered, (total, call), *chain]
        scales = multiplier.value.numpy()
        if found.attributes.get("channels_first"):
            bias, scales = (_channels_last(values) for values in (bias, scales))
        bias = _flat(bias) + found.offset
        return Operator(
            kind=found.kind,
            nodes=union(sources_of(each) for _, each in chain),
            inputs=tuple(_tensor(x) for x in found.inputs),
            output=_tensor(var),
            attributes={
                **_integers(attrs),
                **found.attributes,
                "multiplier": scales,
                "bias": bias,
                "magnitude": found.reach + int(np.abs(bias).max(initial=0)),
            },
            bindings=tuple(each for each, _ in chain),
            call=call,
            macs=found.macs,
        )

    def _unread(self, var: Var, value: Call) -> Unread:
        routine = self.routine(value)
        found = None if routine or "float" in _dtype(var) else sum_of(value, self)
        return unread(var, value, routine, self._read_by_others(var), 0 if found is None else found.macs)

    def _read_by_others(self, var: Var) -> Sequence[Expr]:
        """The values that read a variable."""
        return self._readers.get(var, [])


def _binary(var: Var, value: Call, attrs: Mapping[str, Any]) -> Operator:
    fields = list(value.args[1].fields)
    given = [name for name in "ab" if f"{name}_zero_point" in attrs]
    held = [name for name in "ab" if name not in given]
    constants = {name: c.value.numpy() for name, c in zip(held, fields[len(given) :], strict=True)}
    kind = str(attrs["numerics"]).removeprefix("tosa.")
    return _made(kind, var, value, fields[: len(given)], {**_integers(attrs), **constants})


def _made(kind: str, var: Var, call: Call, inputs: Sequence[Expr], attributes: Mapping[str, Any]) -> Operator:
    read_here = tuple(_tensor(x) for x in inputs)
    return Operator(kind, sources_of(call), read_here, _tensor(var), attributes, (var,), call)


def _integers(attrs: Mapping[str, Any]) -> dict[str, int]:
    """The integers among a routine's attributes."""
    return {
        name: int(value) for name, value in attrs.items() if isinstance(value, int) and name != "op_pattern"
    }


def _channels_last(values: Array) -> Array:
    """Values of an output with its channels in front, or one for all."""
    return np.moveaxis(values, 1, -1) if values.ndim > 1 else values


def _flat(bias: Array) -> Array:
    """A bias of the output's rank along the last axis alone, if it varies along no other."""
    return bias.reshape(-1) if bias.size in (1, bias.shape[-1]) else bias


def _tensor(var: Expr) -> Tensor:
    return Tensor(var, shape_of(var), _dtype(var))


def _dtype(var: Expr) -> str:
    return str(getattr(var.ty, "dtype", ""))


def _is_integer(var: Expr) -> bool:
    """Whether it holds truths, or integers of at most 32 bits."""
    dtype = _dtype(var)
    whole = dtype == "bool" or ("int" in dtype and dtype not in LONG)
    return whole and isinstance(var.ty, relax.TensorType)
