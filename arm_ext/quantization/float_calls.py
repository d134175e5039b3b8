# SPDX-License-Identifier: Apache-2.0
"""Calls that a quantiser left in float in a QDQ model, quantised like the calls around them.

    dequantize ─ softmax ─ erf ─ quantize    →    dequantize ─ softmax ─ quantize ─ dequantize ─ erf ─ quantize

Ranges are of one sample; what is quantised already keeps its parameters. A bias is a part of its product, and the steps
of a formula that a front end writes for one node are one operator: what stands between them stays in float.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.ir import Call, Expr, GenericConst, Var
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_map

from arm_ext.frontends.common.imported import ImportedModel
from relay_passes.ir.calls import SHAPE_ONLY, BoundCall, array_of, name_of, nodes_of, tensor_const
from relay_passes.ir.main_signature import returning
from relay_passes.ir.sources import Names, bindings_of, sources_of, with_source
from relay_passes.ir.upstream import run_upstream
from relay_passes.rules.common.linear_calls import ANCHORS, along, channels_of

_MOVES = (*SHAPE_ONLY, "relax.permute_dims")
_BINARY = tuple(f"relax.{name}" for name in ("add", "divide", "maximum", "minimum", "multiply", "subtract"))
_FLOAT, _STEPS, _LEAST, _GREATEST = "float32", 255, -128, 127
_MATRIX = 2


Run = Callable[[tvm.IRModule, Sequence[npt.NDArray[Any]]], list[npt.NDArray[Any]]]
"""Runs `main` of an imported module: its inputs → its outputs, both in order."""


def with_quantized_calls(
    model: ImportedModel, nodes: Collection[str], inputs: Mapping[str, npt.NDArray[Any]], run: Run
) -> ImportedModel | None:
    """Return a QDQ model in which calls of some source nodes are in int8, too; None if all of them are already.

    Args:
        model: A QDQ model whose `main` is one dataflow block.
        nodes: Names of source nodes.
        inputs: A sample that ranges are taken from: input name → value.
        run: Runs the model on the sample.
    """
    main = model.mod["main"]
    if len(main.body.blocks) != 1:
        return None
    conversions = _Conversions(main, nodes)
    if not conversions.calls or not (conversions.values or conversions.constants):
        return None
    watched = returning(model.mod, conversions.values) if conversions.values else None
    sample = [inputs[spec.name] for spec in model.inputs]
    found = [] if watched is None else run(watched, sample)
    ranges = {var: _range(value) for var, value in zip(conversions.values, found, strict=True)}
    mod = model.mod.clone()
    mod.update_func(mod.get_global_var("main"), conversions.write(ranges))
    mod = run_upstream(mod, relax.transform.Normalize())
    return replace(model, mod=mod, for_npu=None)


_Range = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def _range(value: npt.NDArray[Any]) -> _Range:
    """Return scale and zero point of int8 for the range of values, extended to contain 0."""
    least, greatest = min(float(value.min(initial=0)), 0.0), max(float(value.max(initial=0)), 0.0)
    scale = np.asarray((greatest - least) / _STEPS or 1 / _STEPS, np.float32)
    return scale, np.asarray(round(_LEAST - least / float(scale)), np.int32)


class _Conversions:
    """The calls, values and constants of a function that are to be quantised.

    Attributes:
        calls: Variable → the call of it that is to read and give integers.
        values: The values in float that need a range: what the calls read and give.
        constants: Whether a call reads constants in float.
    """

    def __init__(self, main: relax.Function, nodes: Collection[str]) -> None:
        self._main = main
        self._known = {node.var: node for node in nodes_of(main)}
        self.calls = {
            var: node
            for var, node in self._known.items()
            if _is_float(node) and set(sources_of(node.call)) <= set(nodes)
        }
        self._readers: dict[Var, list[relax.Binding]] = {}
        for binding in bindings_of(main):
            for var in free_vars(binding.value):
                self._readers.setdefault(var, []).append(binding)
        given = {var for var in self.calls if not self._stays(var)}
        read = {
            operand: None
            for node in self.calls.values()
            for operand in node.operands
            if isinstance(operand, Var) and str(operand.ty.dtype) == _FLOAT and operand not in given
        }
        self._given = given
        self._read = {var for var in read if not self._is_dequantized(var) and var not in self.calls}
        self.values = [
            *(var for var in self.calls if var in given),
            *(var for var in read if var in self._read),
        ]
        self.constants = any(
            self._takes(node, operand) for node in self.calls.values() for operand in node.operands
        )

    def _stays(self, var: Var) -> bool:
        """Whether a result stays in float: only `quantize` reads it, or it is an intermediate step of one operator."""
        readers = [binding.value for binding in self._readers.get(var, ())]
        if not readers or all(name_of(reader) == "relax.quantize" for reader in readers):
            return bool(readers)
        own = self.calls[var]
        inside = all(sources_of(reader) == sources_of(own.call) for reader in readers)
        nodes = [self._known[binding.var] for binding in self._readers[var] if binding.var in self._known]
        return inside and (own.name in ANCHORS or all(len(_tensors(node)) == 1 for node in nodes))

    def _takes(self, node: BoundCall, operand: Expr) -> bool:
        """Whether a constant is to be quantised: weights, and operands of elementwise operators that are no biases."""
        if not isinstance(operand, GenericConst) or str(operand.ty.dtype) != _FLOAT:
            return False
        if node.name in ANCHORS:
            return True
        return (
            node.name in _BINARY
            and operand in _tensors(node)
            and not any(
                each in self.calls and self._stays(each) for each in node.operands if isinstance(each, Var)
            )
        )

    def _is_dequantized(self, var: Var) -> bool:
        node = self._known.get(var)
        if node is None:
            return False
        if node.name in _MOVES:
            return isinstance(node.operands[0], Var) and self._is_dequantized(node.operands[0])
        return node.name == "relax.dequantize"

    def write(self, ranges: Mapping[Var, _Range]) -> relax.Function:
        """Return the function with quantize and dequantize calls for the given ranges."""
        main, before = self._main, dict[Var, Var]()
        bindings: list[relax.Binding] = []
        for binding in main.body.blocks[0].bindings:
            var, value = binding.var, binding.value
            if var in self.calls:
                value = self._on_integers(self.calls[var], ranges)
            elif name_of(value) == "relax.quantize":
                value = structural_map(value, [(Var, lambda each: before.get(each, each))])
            if var in self._given:
                before[var] = relax.DataflowVar(f"{var.name}_float", var.ty)
                bindings.append(relax.VarBinding(before[var], value))
                value = _pair(before[var], ranges[var], sources_of(value))
            bindings.append(_rebound(binding, value))
        body = relax.SeqExpr([relax.DataflowBlock(bindings)], main.body.body)
        return relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)

    def _on_integers(self, node: BoundCall, ranges: Mapping[Var, _Range]) -> Call:
        names = sources_of(node.call)
        operands: Sequence[Expr] = [
            _pair(operand, ranges[operand], names)
            if operand in self._read
            else _integers(node, operand, names)
            if self._takes(node, operand)
            else operand
            for operand in node.operands
        ]
        return with_source(node.put(operands), names)


def _rebound(binding: relax.Binding, value: Expr) -> relax.Binding:
    if isinstance(binding, relax.MatchCast):
        return binding
    return relax.VarBinding(binding.var, value)


def _is_float(node: BoundCall) -> bool:
    dtype = str(getattr(node.var.ty, "dtype", ""))
    return dtype == _FLOAT and node.name not in ("relax.dequantize", *_MOVES)


def _tensors(node: BoundCall) -> list[Expr]:
    """Return the operands of a call, except constant scalars."""
    return [each for each in node.operands if not isinstance(each, GenericConst) or array_of(each).size != 1]


def _parameters(found: _Range) -> tuple[Expr, Expr]:
    scale, zero = found
    return tensor_const(scale), tensor_const(zero)


def _pair(value: Expr, found: _Range, names: Names) -> Call:
    """Return `dequantize(quantize(value))`."""
    integers = with_source(relax.op.quantize(value, *_parameters(found), axis=0, out_dtype="int8"), names)
    return with_source(relax.op.dequantize(integers, *_parameters(found), axis=0, out_dtype=_FLOAT), names)


def _integers(node: BoundCall, constant: GenericConst, names: Names) -> Call:
    """Return `dequantize` of a constant in int8; weights have one scale per output channel, and zero point 0."""
    value, axis = array_of(constant), 0
    scale, zero = found = _range(value)
    if node.name in ANCHORS and value.ndim >= _MATRIX:
        axis = channels_of(node.call).weight_out
        largest = np.abs(value).max(axis=tuple(each for each in range(value.ndim) if each != axis))
        scales = np.where(largest, largest / _GREATEST, 1).astype(np.float32)
        found = scales, np.zeros(scales.shape, np.int32)
        scale, zero = along(scales, axis, value.ndim), np.asarray(0)
    rounded = np.clip(np.rint(value / scale) + zero, _LEAST, _GREATEST).astype(np.int8)
    call = relax.op.dequantize(tensor_const(rounded), *_parameters(found), axis=axis, out_dtype=_FLOAT)
    return with_source(call, names)
