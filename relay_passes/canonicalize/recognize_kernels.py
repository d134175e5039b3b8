# SPDX-License-Identifier: Apache-2.0
"""Replacement of TIR kernels that importers emit by equal Relax operators.

    call_tir(maximum, (x, c))    →    maximum(x, c)
    call_tir(minimum, (x, c))    →    minimum(x, c)
    call_tir(pad, (x,))          →    nn.pad(x, widths, value)
    call_tir(tile, (x,))         →    tile(x, repeats)
    a bound that is a literal in the kernel becomes the constant c

TVM's ONNX importer emits kernels for Clip, Pad and Tile, but rules match operators only. A kernel is recognised, under
any name, if it is structurally equal to topi's function for the operator: exact.
"""

from collections.abc import Callable, Iterator
from functools import partial

from tvm import IRModule, relax, te, topi
from tvm.ir import Call, Expr, GlobalVar, TensorLoad, Var
from tvm.ir.prim.expr import Sub
from tvm.tirx import FloatImm, IntImm, PrimFunc
from tvm_ffi import structural_equal, structural_walk

from relay_passes.ir.sources import map_calls, relax_functions, sources_of, with_source

Compute = Callable[..., te.Tensor]
# A candidate: a function of topi, its arguments, and the equivalent Relax operator.
Guess = tuple[Compute, tuple[object, ...], Expr]

_EXTREMA: tuple[tuple[Compute, Callable[[Expr, Expr], Expr]], ...] = (
    (topi.maximum, relax.op.maximum),
    (topi.minimum, relax.op.minimum),
)


def recognize_kernels(mod: IRModule) -> IRModule:
    """Replace calls of recognised kernels by Relax operators; dead code elimination later removes unused kernels."""
    out = mod.clone()
    for gv, func in relax_functions(mod):
        out.update_func(gv, map_calls(func, partial(_recognized, mod)))
    return out


def _recognized(mod: IRModule, _var: Var, call: Call) -> Call:
    kernel = _kernel(mod, call)
    if kernel is None or not isinstance(call.ty, relax.TensorType):
        return call
    for compute, arguments, operator in (*_extrema(kernel, call), *_pads(kernel, call), *_tiles(call)):
        if structural_equal(_emitted(compute, arguments), kernel, map_free_vars=True):
            return with_source(relax.BlockBuilder().normalize(operator), sources_of(call))
    return call


def _kernel(mod: IRModule, call: Call) -> PrimFunc | None:
    if str(getattr(call.op, "name", "")) != "relax.call_tir" or not isinstance(call.args[0], GlobalVar):
        return None
    # A call_tir with symbolic shapes has a third argument, and is not supported.
    return mod[call.args[0]] if len(call.args) == 2 else None


def _emitted(compute: Compute, arguments: tuple[object, ...]) -> PrimFunc:
    builder = relax.BlockBuilder()
    builder.call_te(compute, *arguments)
    (kernel,) = builder.get().functions.values()
    return kernel


def _extrema(kernel: PrimFunc, call: Call) -> Iterator[Guess]:
    operands = tuple(call.args[1].fields)
    dtype = str(call.ty.dtype)
    if len(operands) == 2:
        guesses = [(operands, operands)] if _broadcast(*operands) else []
    elif len(operands) == 1:
        guesses = [
            ((operands[0], bound), (operands[0], relax.const(bound, dtype))) for bound in _numbers(kernel)
        ]
    else:
        return
    for compute, operator in _EXTREMA:
        for arguments, (x, bound) in guesses:
            yield compute, arguments, operator(x, bound)


def _broadcast(a: Expr, b: Expr) -> bool:
    """Whether two tensors can be broadcast to each other; for others topi raises an error."""
    pairs = zip(reversed(a.ty.shape), reversed(b.ty.shape), strict=False)
    return all(structural_equal(m, n) or _is_one(m) or _is_one(n) for m, n in pairs)


def _is_one(size: Expr) -> bool:
    return isinstance(size, IntImm) and int(size) == 1


def _pads(kernel: PrimFunc, call: Call) -> Iterator[Guess]:
    operands = tuple(call.args[1].fields)
    before = _shifts(kernel)
    if len(operands) != 1 or before is None or len(before) != len(call.ty.shape):
        return
    (x,) = operands
    sizes = list(zip(x.ty.shape, call.ty.shape, before, strict=True))
    if not all(isinstance(size, IntImm) and isinstance(padded, IntImm) for size, padded, _ in sizes):
        return
    after = [int(padded) - int(size) - first for size, padded, first in sizes]
    widths = [width for pair in zip(before, after, strict=True) for width in pair]
    for value in _numbers(kernel):
        yield topi.nn.pad, (x, before, after, value), relax.op.nn.pad(x, widths, "constant", value)


def _tiles(call: Call) -> Iterator[Guess]:
    operands = tuple(call.args[1].fields)
    if len(operands) != 1 or len(operands[0].ty.shape) != len(call.ty.shape):
        return
    (x,) = operands
    sizes = list(zip(x.ty.shape, call.ty.shape, strict=True))
    if not all(isinstance(size, IntImm) and isinstance(tiled, IntImm) for size, tiled in sizes):
        return
    if all(int(size) and int(tiled) % int(size) == 0 for size, tiled in sizes):
        repeats = [int(tiled) // int(size) for size, tiled in sizes]
        yield topi.tile, (x, repeats), relax.op.tile(x, repeats)


def _numbers(kernel: PrimFunc) -> list[float]:
    """Return the distinct float literals of a kernel."""
    found: list[float] = []
    structural_walk(kernel.body, [(FloatImm, lambda imm: found.append(float(imm.value)))])
    return list(dict.fromkeys(found))


def _shifts(kernel: PrimFunc) -> list[int] | None:
    """Return, per axis, the loop variable minus the index of the kernel's single load; None for other kernels."""
    loads: list[TensorLoad] = []
    structural_walk(kernel.body, [(TensorLoad, loads.append)])
    if len(loads) != 1:
        return None
    shifts = [_shift(index) for index in loads[0].indices]
    return [s for s in shifts if s is not None] if None not in shifts else None


def _shift(index: Expr) -> int | None:
    if isinstance(index, Sub) and isinstance(index.b, IntImm):
        return int(index.b)
    return 0 if isinstance(index, Var) else None
