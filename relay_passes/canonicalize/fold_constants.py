# SPDX-License-Identifier: Apache-2.0
"""Constant folding of whole chains of calls.

    y = f(c1, g(c2))                   →    c3
    y = shape_to_tensor(shape_of(x))    →    the dimensions of x, if they are static

Quantised: `quantize(c)` becomes an integer constant. `dequantize(c)` is not folded, because integer arithmetic needs
the integer constant and its scale, and a float constant would be four times as large.

TVM's FoldConstant has no such exception and compiles each call separately (6 s for MobileNetV2). Here one function with
all calls is compiled once: for the plain "llvm" target, so that constants do not depend on the host CPU, and without
optimisation if there is little to compute. Calls that only move or select elements, such as a reshape, are evaluated in
numpy without compilation.

A folded value has the bits that compiled code would compute, NaN and infinities included: casts and comparisons are
defined in the same way, and operators for which `schedules` has legalisations with other results are not folded.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, GlobalVar, Op, Tuple, TupleType, Var
from tvm.ir.transform import Pass, Sequential
from tvm.relax.analysis import free_vars
from tvm.tirx import IntImm
from tvm.tirx.compilation_pipeline import get_tir_pipeline, register_tir_pipeline
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from relay_passes.bounds import OutOfBoundsError, check_indices
from relay_passes.canonicalize.define_casts import define_casts
from relay_passes.canonicalize.define_comparisons import define_comparisons
from relay_passes.ir.calls import SHAPE_ONLY, array_of, name_of, tensor_const
from relay_passes.ir.legalize import in_float32, legalize
from relay_passes.ir.sources import bindings_of, relax_functions

QDQ_WEIGHTS = ("relax.dequantize",)

_QUICKLY_RUN = 1 << 16
"""Number of elements read and written up to which code takes longer to optimise than to run."""
_PIPELINE = "relay_passes.fold_constants"
_UNFOLDED = (
    *("relax.argmax", "relax.argmin"),  # if all elements are the minimum integer, TVM's loops return index -1
    *(f"relax.nn.max_pool{rank}d" for rank in (1, 2, 3)),  # TVM's loops start from the minimum finite number
)
"""Operators that are not folded, as compiled code computes them by loops with other results."""
_SUMS = (
    "sum",
    "mean",
    "variance",
    "std",
    "prod",
    "matmul",
    "nn.avg_pool1d",
    "nn.avg_pool2d",
    "nn.avg_pool3d",
)


def _reshaped(call: Call, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return x.reshape([int(dim) for dim in call.ty.shape])


def _transposed(call: Call, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return x.transpose(None if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes])


_MOVES: dict[str, Callable[..., npt.NDArray[Any]]] = {
    **dict.fromkeys(SHAPE_ONLY, _reshaped),
    "relax.permute_dims": _transposed,
    "relax.isnan": lambda _call, x: np.isnan(x),
    "relax.where": lambda _call, condition, x, y: np.where(condition, x, y),
}
_SHAPE_TO_TENSOR = Op.get("relax.shape_to_tensor")


def fold_constants(mod: IRModule, keep: tuple[str, ...] = QDQ_WEIGHTS) -> IRModule:
    """Replace each tensor that depends on constants alone by a constant.

    Args:
        mod: Module whose Relax functions are in A-normal form. Values that a function returns are not folded.
        keep: Operators that are not folded.

    Raises:
        OutOfBoundsError: Constant indices are out of bounds.
    """
    out = mod.clone()
    for gv, func in relax_functions(mod):
        if known := _static_shapes(func) | _moved(func):
            func = _without(func, known)
        if constant := _constant_bindings(func, keep):
            func = _without(func, _evaluate(mod, func, constant))
        out.update_func(gv, func)
    return out


def _static_shapes(func: relax.Function) -> dict[Var, relax.Expr]:
    found: dict[Var, relax.Expr] = {}
    for binding in bindings_of(func):
        value = binding.value
        if isinstance(value, Call) and value.op.same_as(_SHAPE_TO_TENSOR):
            dims = value.args[0].ty.values
            if dims is not None and all(isinstance(dim, IntImm) for dim in dims):
                found[binding.var] = relax.const([int(dim) for dim in dims], "int64")
    return found


def _moved(func: relax.Function) -> dict[Var, Expr]:
    """Return the values of calls that only move or select elements of constants, evaluated in numpy."""
    found: dict[Var, Expr] = {}
    for binding in bindings_of(func):
        value = binding.value
        if (move := _MOVES.get(name_of(value))) is None or not _is_static(value.ty.shape):
            continue
        tensors = [
            found.get(arg, arg)
            for arg in value.args
            if isinstance(getattr(arg, "ty", None), relax.TensorType)
        ]
        if all(isinstance(tensor, GenericConst) for tensor in tensors):
            arrays = [array_of(tensor) for tensor in tensors]
            if all(array.dtype.kind in "biuf" for array in arrays):
                found[binding.var] = tensor_const(np.asarray(move(value, *arrays)))
    return found


def _constant_bindings(func: relax.Function, keep: tuple[str, ...]) -> dict[Var, relax.VarBinding]:
    found: dict[Var, relax.VarBinding] = {}
    for binding in bindings_of(func):
        value = binding.value
        if (
            isinstance(binding.var.ty, relax.TensorType)
            and isinstance(value, Call)
            and isinstance(value.op, Op)
            and (value.op.name == "relax.call_tir" or value.op.has_attr("FLegalize"))
            and value.op.name not in (*keep, *_UNFOLDED)
            and all(operand in found for operand in free_vars(value))
        ):
            found[binding.var] = binding
    return found


def _evaluate(
    mod: IRModule, func: relax.Function, constant: dict[Var, relax.VarBinding]
) -> dict[Var, relax.Expr]:
    """Return the values, by compiled code, of those constant variables that the rest of the function uses."""
    rest = [b.value for b in bindings_of(func) if b.var not in constant]
    used = [var for var in dict.fromkeys(v for value in rest for v in free_vars(value)) if var in constant]
    if not used:
        return {}
    result = Var("result", TupleType([var.ty for var in used]))
    block = relax.DataflowBlock([*constant.values(), relax.VarBinding(result, Tuple(used))])
    main = relax.Function([], relax.SeqExpr([block], result), result.ty).with_attr("global_symbol", "main")
    alone = IRModule({gv: f for gv, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)})
    alone[GlobalVar("main")] = main
    values = _run(alone)
    return dict(zip(used, (relax.const(value) for value in values), strict=True))


def compute(mod: IRModule, inputs: Sequence[npt.NDArray[Any]] = ()) -> list[npt.NDArray[Any]]:
    """Compile and run `main` of a module, which returns a tuple, in this process, as constant folding does.

    Raises:
        OutOfBoundsError: Constant indices are out of bounds.
    """
    return [value.numpy() for value in _run(mod, inputs)]


def _run(mod: IRModule, inputs: Sequence[npt.NDArray[Any]] = ()) -> Any:
    mod = relax.transform.DeadCodeElimination(["main"])(mod)
    # Sum float16 in float32, as compiled code does: a sum in float16 loses small terms; a sum of ones stops at
    # 2048.
    sums = dict.fromkeys((f"relax.{name}" for name in _SUMS), in_float32("float16"))
    mod, _ = check_indices(legalize(mod, sums))
    try:
        made = tvm.compile(mod, _target(mod), tir_pipeline=_registered())
        main = relax.VirtualMachine(made, tvm.cpu())["main"]
        return main(*(tvm.runtime.tensor(each) for each in inputs))
    except IndexError as err:
        raise OutOfBoundsError.of(err) from err


@cache
def _registered() -> str:
    """Register a pipeline of TVM's passes followed by those that define casts and comparisons; return its name."""
    lower, finalize, finalize_device = get_tir_pipeline("default")

    def defined() -> Pass:
        numbers = prim_func_pass(
            lambda func, _mod, _context: define_comparisons(define_casts(func)), opt_level=0
        )
        return Sequential([numbers, finalize()])

    register_tir_pipeline(_PIPELINE, lambda: (lower, defined, finalize_device))
    return _PIPELINE


def _target(mod: IRModule) -> tvm.target.Target:
    types = [e.ty for b in bindings_of(mod["main"]) for e in (b.var, *getattr(b.value, "args", ()))]
    shapes = [ty.shape for ty in types if isinstance(ty, relax.TensorType)]
    quick = (
        all(map(_is_static, shapes)) and sum(math.prod(map(int, shape)) for shape in shapes) <= _QUICKLY_RUN
    )
    return tvm.target.Target({"kind": "llvm", "opt-level": 0} if quick else "llvm")


def _is_static(shape: Expr | None) -> bool:
    return isinstance(shape, relax.ShapeExpr) and all(isinstance(dim, IntImm) for dim in shape)


def _without(func: relax.Function, values: dict[Var, relax.Expr]) -> relax.Function:
    """Return a copy of `func` with variables replaced by constants, and without calls that are no longer used."""

    def put(binding: relax.VarBinding) -> relax.VarBinding:
        value = structural_map(binding.value, [(Var, lambda var: values.get(var, var))])
        return relax.VarBinding(binding.var, value, binding.span)

    func = structural_map(func, [(relax.VarBinding, put)])
    return relax.analysis.remove_all_unused(func)
