# SPDX-License-Identifier: Apache-2.0
"""Batch independence: a proof, by all loops of a model, that each output sample depends on one input sample alone.

    y[s, f] = sum_k x[s, k] * w[f, k]      sample s of y reads sample s of x alone     independent
    y[s, f] = x[s, f] - x[0, f]            sample s of y reads sample 0 of x           not independent

The model for one sample, which the batch loop executes for each sample, is compared with the model for several samples:
they must have the same calls, and the same values that do not depend on the number of samples.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tvm import IRModule, relax, tirx
from tvm.ir import Call, Expr, GenericConst, GlobalVar, Op, TupleGetItem, Var
from tvm.relax import ShapeExpr
from tvm_ffi import structural_equal

from relay_passes.batching.batch_axes import MixedError, Samples, find_batch_axes
from relay_passes.canonicalize.recognize_kernels import recognize_kernels
from relay_passes.ir.legalize import Legalize, legalize
from relay_passes.ir.sources import bindings_of, sources_of
from schedules.diagnostic import Diagnostic

# Operators along one axis whose results for the elements along all other axes are independent.
_ALONG_AXIS = ("relax.topk", "relax.sort", "relax.argsort", "relax.cumsum", "relax.cumprod")

_UNKNOWN = "how it reads its input is not known"

_Places = Samples | None | list["_Places"]  # None: equal for all samples; a list for the fields of a tuple


def check_batch_independence(
    one: IRModule,
    several: IRModule,
    batched: Iterable[int],
    count: int,
    loops: Mapping[str, Legalize] | None = None,
) -> Diagnostic | None:
    """Return why a model is not proven to be batch-independent; None if it is proven.

    Args:
        one: A module as imported, for one sample.
        several: The same module for several samples.
        batched: Indices of the parameters of `main` whose axis 0 is the batch axis. It must be that of all outputs,
            too.
        count: Number of samples in `several`.
        loops: Legalisations that replace TVM's, by operator name.
    """
    one, several = _plain(one), _plain(several)
    if different := _Comparison(one, several, count).difference():
        return different
    lowered = legalize(several, loops)
    proof = _Proof(lowered, _grown_constants(one["main"], several["main"], count), count)
    for index, param in enumerate(lowered["main"].params):
        proof.places[param] = Samples(0) if index in batched else None
    for binding in bindings_of(lowered["main"]):
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.shape_of":
            continue  # importers leave unused shapes; calls that read a shape are rejected
        try:
            proof.places[binding.var] = proof.place(binding.value)
        except MixedError as err:
            return Diagnostic.of(str(err), nodes=sources_of(binding.value))
    result = proof.place(lowered["main"].body.body)
    if any(place != Samples(0) for place in (result if isinstance(result, list) else [result])):
        return Diagnostic.of("an output has no samples along its first axis")
    return None


def find_row_axes(
    mod: IRModule, operands: Iterable[Samples | None], count: int
) -> Samples | Diagnostic | None:
    """Return the row axis of a function's result, whose rows depend on the same rows of the operands; else why not.

    Args:
        mod: Its `main` is the function, with one result; it may call routines of the module by call_tir.
        operands: Row axes of the parameters; None for parameters without rows.
        count: Number of rows.
    """
    lowered = legalize(mod)
    proof = _Proof(lowered, {}, count)
    proof.places |= dict(zip(lowered["main"].params, operands, strict=True))
    for binding in bindings_of(lowered["main"]):
        try:
            proof.places[binding.var] = proof.place(binding.value)
        except MixedError as err:
            return Diagnostic.of(str(err), nodes=sources_of(binding.value))
    result = proof.place(lowered["main"].body.body)
    return Diagnostic.of(_UNKNOWN) if isinstance(result, list) else result


class _Proof:
    """The proof for one function: the batch axes of its values."""

    def __init__(self, mod: IRModule, grown: dict[bytes, Samples], count: int) -> None:
        self.places: dict[Var, _Places] = {}
        self._mod, self._grown, self._count = mod, grown, count

    def place(self, value: Expr) -> _Places:
        match value:
            case Var() if value in self.places:
                return self.places[value]
            case relax.Tuple():
                return [self.place(field) for field in value.fields]
            case TupleGetItem():
                fields = self.place(value.tuple_value)
                return fields[value.index] if isinstance(fields, list) else fields
            case GenericConst():
                return self._of_constant(value)
            case Call():
                return self._of_call(value)
            case ShapeExpr() | relax.DataTypeImm() | relax.StringImm() | tirx.IntImm() | tirx.FloatImm():
                return None
        raise MixedError(_UNKNOWN)

    def _of_tensor(self, value: Expr) -> Samples | None:
        place = self.place(value)
        if isinstance(place, list):
            raise MixedError(_UNKNOWN)
        return place

    def _of_constant(self, constant: GenericConst) -> Samples | None:
        return self._grown.get(_bytes(constant)) if isinstance(constant.ty, relax.TensorType) else None

    def _of_call(self, call: Call) -> _Places:
        name = getattr(call.op, "name", "")
        if name == "relax.call_tir":
            operands = [self._of_tensor(arg) for arg in call.args[1].fields]
            outputs = find_batch_axes(self._mod[call.args[0].name_hint], operands, self._count)
            return list(outputs) if isinstance(call.ty, relax.TupleType) else outputs[0]
        places = [self.place(arg) for arg in call.args]
        if all(place is None for place in places):
            return None
        if name in _ALONG_AXIS and isinstance(places[0], Samples):
            axis = int(call.attrs.axis) % len(call.args[0].ty.shape.values)
            if axis == places[0].axis:
                raise MixedError("it operates along the batch axis")
            return [places[0]] * len(call.ty.fields) if isinstance(call.ty, relax.TupleType) else places[0]
        raise MixedError(_UNKNOWN)


def _plain(mod: IRModule) -> IRModule:
    """Return a copy of the module without unused bindings, and with operators instead of importers' kernels."""
    return relax.transform.DeadCodeElimination(["main"])(recognize_kernels(mod))


@dataclass(frozen=True)
class _Comparison:
    """A comparison of the model for one sample with the model for several samples."""

    one: IRModule
    several: IRModule
    count: int

    def difference(self) -> Diagnostic | None:
        """Return a difference of the two functions besides the number of samples; None if there is none."""
        mine, others = bindings_of(self.one["main"]), bindings_of(self.several["main"])
        for a, b in zip(mine, others, strict=False):
            if not self._alike(a.value, b.value):
                return Diagnostic.of("it differs between one sample and several", nodes=sources_of(b.value))
        if len(mine) != len(others):
            return Diagnostic.of("the graph differs between one sample and several")
        return None

    def _alike(self, one: Expr, other: Expr) -> bool:
        count = self.count
        match one, other:
            case Call(), Call():
                operators = not isinstance(one.op, Op) or one.op.same_as(other.op)
                attributes = structural_equal(one.attrs, other.attrs)
                return operators and attributes and self._all_alike(one.args, other.args)
            case relax.Tuple(), relax.Tuple():
                return self._all_alike(one.fields, other.fields)
            case ShapeExpr(), ShapeExpr():
                return self._all_alike(one.values, other.values)
            case tirx.IntImm(), tirx.IntImm():
                return int(other) in (int(one), int(one) * count)
            case GenericConst(), GenericConst():
                return structural_equal(one, other) or _grown_axis(one, other, count) is not None
            case GlobalVar(), GlobalVar():
                return structural_equal(one, other) or self._same_routine(one, other)
        is_name = isinstance(one, Var | TupleGetItem)
        return type(one) is type(other) and (is_name or structural_equal(one, other))

    def _all_alike(self, mine: Iterable[Expr], others: Iterable[Expr]) -> bool:
        mine, others = list(mine), list(others)
        return len(mine) == len(others) and all(self._alike(a, b) for a, b in zip(mine, others, strict=True))

    def _same_routine(self, one: GlobalVar, other: GlobalVar) -> bool:
        """Whether two functions are the same routine of a numerics, for different numbers of samples."""
        attributes = [mod[name].attrs for mod, name in ((self.one, one), (self.several, other))]
        return all(each and "numerics" in each for each in attributes) and structural_equal(*attributes)


def _grown_axis(one: GenericConst, other: GenericConst, count: int) -> int | None:
    """Return the axis along which constant `other` is constant `one` repeated `count` times; None if there is none."""
    if not (isinstance(one.ty, relax.TensorType) and isinstance(other.ty, relax.TensorType)):
        return None
    a, b = one.value.numpy(), other.value.numpy()
    axes = [k for k, (m, n) in enumerate(zip(a.shape, b.shape, strict=False)) if m != n]
    if a.ndim != b.ndim or a.dtype != b.dtype or len(axes) != 1:
        return None
    (axis,) = axes
    return axis if (a.shape[axis], b.shape[axis]) == (1, count) and (a == b).all() else None


def _grown_constants(one: relax.Function, several: relax.Function, count: int) -> dict[bytes, Samples]:
    """Return the batch axes of the constants that repeat a constant for each sample, by the constant's content."""
    found: dict[bytes, Samples] = {}
    for a, b in zip(bindings_of(one), bindings_of(several), strict=True):
        if isinstance(a.value, Call):
            for mine, other in zip(_constants(a.value.args), _constants(b.value.args), strict=True):
                axis = None if structural_equal(mine, other) else _grown_axis(mine, other, count)
                if axis is not None:
                    found[_bytes(other)] = Samples(axis)
    return found


def _constants(args: Iterable[Expr]) -> list[GenericConst]:
    return [
        constant
        for arg in args
        for constant in (_constants(arg.fields) if isinstance(arg, relax.Tuple) else [arg])
        if isinstance(constant, GenericConst)
    ]


def _bytes(constant: GenericConst) -> bytes:
    value = constant.value.numpy()
    content: bytes = value.tobytes()
    return f"{value.dtype}{value.shape}".encode() + content
