# SPDX-License-Identifier: Apache-2.0
"""Insertion of bounds checks of run-time indices before the accesses that use them.

    y = call_tir(take, (x, t))    →    u = call_tir(check, (t,)); y = call_tir(take, (x, u))

`check` copies t to u, and raises an error that names the source node if an element of t is out of the bounds of x. It
is opaque: nothing is fused with it, and later calls read the elements that were checked. If all possible values of t
are in bounds for any inputs, no check is inserted.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tvm
from tvm import IRModule, ir, relax, tirx
from tvm.ir import Call, Expr, GenericConst, PrimType, StringImm, TupleGetItem, Var
from tvm.ir.prim import expr as prim
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm_ffi import structural_equal, structural_map

from relay_passes.bounds.accesses import Analysis, DataDependentIndex, clamped
from relay_passes.bounds.intervals import NOTHING, Interval, dtype_of, of_dtype
from relay_passes.ir.calls import CALL_TIR, name_of
from relay_passes.ir.sizes import text_of
from relay_passes.ir.sources import relax_functions, sources_of, with_source

_OPAQUE = 8  # TOpPattern kOpaque, which FuseOps does not fuse
_ROOT = "root"
_VIEWS = ("relax.reshape", "relax.memory.view")


@dataclass(frozen=True)
class IndexCheck:
    """How the indices of one operator are kept in bounds, for reports.

    Attributes:
        sources: Source nodes of the operator.
        how: "proven" at compile time, "checked" at run time, or "clamped" (for an operator that computes its indices
            itself).
        limits: Number of valid indices along each axis, such as "8" or "n".
        symbol: Name of the function that checks the indices; "" if there is none.
    """

    sources: tuple[str, ...]
    how: Literal["proven", "checked", "clamped"]
    limits: tuple[str, ...]
    symbol: str = ""


class OutOfBoundsError(ValueError):
    """Constant indices are out of bounds."""

    @classmethod
    def of(cls, raised: IndexError) -> "OutOfBoundsError":
        """Return an OutOfBoundsError for an IndexError that a check raised at compile time."""
        return cls(f"{str(raised).strip().splitlines()[-1]}, whatever the inputs are")


def check_indices(mod: IRModule, trusted: Iterable[str] = ()) -> tuple[IRModule, list[IndexCheck]]:
    """Prove that every index that is read from a tensor is in bounds, or insert a check.

    Args:
        mod: Module whose Relax functions are in A-normal form and call kernels by call_tir.
        trusted: Names of PrimFuncs whose accesses are not checked.

    Raises:
        OutOfBoundsError: Constant indices are out of bounds.
    """
    out, checks, skipped = mod.clone(), [], frozenset(trusted)
    for gvar, func in relax_functions(mod):
        checker = _Checker(out, skipped)
        out.update_func(gvar, checker.function(func))
        checks += checker.checks
    return relax.transform.Normalize()(out), checks


class _Checker:
    """Inserts checks into one Relax function."""

    def __init__(self, mod: IRModule, trusted: frozenset[str]) -> None:
        self.checks: list[IndexCheck] = []
        self._mod, self._trusted = mod, trusted
        # For each variable, the interval of its elements; a list of intervals for a tuple.
        self._values: dict[Var, Any] = {}

    def function(self, func: relax.Function) -> relax.Function:
        blocks = [self._block(block) for block in func.body.blocks]
        body = relax.SeqExpr(blocks, func.body.body)
        return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)

    def _block(self, block: relax.BindingBlock) -> relax.BindingBlock:
        bindings: list[relax.Binding] = []
        self._var = relax.DataflowVar if isinstance(block, relax.DataflowBlock) else Var
        for binding in block.bindings:
            if isinstance(binding, relax.VarBinding):
                bindings += self._checked(binding)
            else:
                bindings.append(binding)
        return type(block)(bindings, block.span)

    def _checked(self, binding: relax.VarBinding) -> list[relax.Binding]:
        call = binding.value
        symbol = call.args[0].name_hint if name_of(call) == CALL_TIR else ""
        if not symbol or symbol in self._trusted:
            self._values[binding.var] = self._values_of(call)
            return [binding]
        func = self._mod[symbol]
        args = list(call.args[1].fields)
        given = {
            param: values
            for param, arg in zip(func.params, args, strict=False)
            if isinstance(values := self._values_of(arg), Interval)
        }
        analysis = Analysis(func, given)
        outputs = [analysis.values.get(param) for param in func.params[len(args) :]]
        is_tuple = isinstance(binding.var.ty, relax.TupleType)
        self._values[binding.var] = outputs if is_tuple else (outputs or [None])[0]
        if not analysis.accesses:
            return [binding]
        unproven = [access for access in analysis.accesses if not access.proven]
        names = sources_of(call)
        limits = tuple(dict.fromkeys(text_of(access.limit) for access in unproven or analysis.accesses))
        if not unproven:
            self.checks.append(IndexCheck(names, "proven", limits))
            return [binding]
        taken = set(func.params[: len(args)])
        known = {*taken, *(var for param in taken for var in _sizes(param))}
        first = [access for access in unproven if access.exact and access.reads <= known]
        if len(first) < len(unproven):
            self._mod.update_func(call.args[0], clamped(func))
            self.checks.append(IndexCheck(names, "clamped", limits))
        return self._with_check(binding, func, args, first, limits) if first else [binding]

    def _with_check(
        self,
        binding: relax.VarBinding,
        func: tirx.PrimFunc,
        args: list[Expr],
        unproven: Sequence[DataDependentIndex],
        limits: tuple[str, ...],
    ) -> list[relax.Binding]:
        call, names = binding.value, sources_of(binding.value)
        places = {param: place for place, param in enumerate(func.params[: len(args)])}
        tensors = list(dict.fromkeys(t for access in unproven for t in access.tensors))
        taken = [places[tensor] for tensor in tensors]
        # Operands that are passed to the check because they define the size variables in the limits.
        own = {var for tensor in tensors for var in _sizes(tensor)}
        sized = [
            place
            for place, param in enumerate(func.params[: len(args)])
            if place not in taken and any(var not in own for var in _sizes(param))
        ]
        checker = _check_function(func, taken, sized, unproven, _message(names, limits))
        constants = [args[place] for place in taken]
        if not sized and all(isinstance(arg, GenericConst) for arg in constants):
            _run(checker, constants)
            self.checks.append(IndexCheck(names, "proven", limits))
            return [binding]
        symbol = self._add(checker, call.args[0].name_hint)
        ty = [relax.TensorType(args[place].ty.shape, args[place].ty.dtype) for place in taken]
        checked = relax.call_tir(symbol, [args[place] for place in (*taken, *sized)], ty)
        result = self._var(f"{binding.var.name}_indices", relax.TupleType(ty) if len(ty) > 1 else ty[0])
        added: list[relax.Binding] = [relax.VarBinding(result, with_source(checked, names))]
        for number, place in enumerate(taken):
            field = result
            if len(taken) > 1:
                field = self._var(f"{result.name}_{number}", ty[number])
                added.append(relax.VarBinding(field, TupleGetItem(result, number)))
            args[place] = field
        self.checks.append(IndexCheck(names, "checked", limits, symbol.name_hint))
        fields = [call.args[0], relax.Tuple(args), *list(call.args)[2:]]
        new = Call(call.op, fields, call.attrs, call.ty_args, call.span, ret_ty=call.ty)
        return [*added, relax.VarBinding(binding.var, new, binding.span)]

    def _add(self, func: tirx.PrimFunc, hint: str) -> ir.GlobalVar:
        taken = {str(gvar.name_hint) for gvar in self._mod.get_global_vars()}
        names = (f"check_{hint}" + (f"_{number}" if number else "") for number in itertools.count())
        symbol = ir.GlobalVar(next(name for name in names if name not in taken))
        relax.expr._update_type(symbol, func.ty)
        self._mod[symbol] = func
        return symbol

    def _values_of(self, expr: Expr) -> Any:
        match expr:
            case GenericConst():
                return _of_constant(expr)
            case Var():
                return self._values.get(expr)
            case relax.Tuple():
                return [self._values_of(field) for field in expr.fields]
            case TupleGetItem():
                fields = self._values_of(expr.tuple_value)
                return fields[expr.index] if isinstance(fields, list) else None
            case Call() if getattr(expr.op, "name", "") in _VIEWS and expr.args[0].ty.dtype == expr.ty.dtype:
                return self._values_of(expr.args[0])
        return None


def _of_constant(constant: GenericConst) -> Interval | None:
    dtype = str(getattr(constant.ty, "dtype", ""))
    if of_dtype(dtype) is None:
        return None
    array = constant.value.numpy()
    return Interval(int(array.min()), int(array.max())) if array.size else NOTHING


def _sizes(param: Var) -> Iterator[Var]:
    """Yield the size variables of a parameter's buffer, or the parameter itself if it is a scalar."""
    for size in [param] if isinstance(param.ty, PrimType) else param.ty.shape:
        if isinstance(size, Var):
            yield size


def _named(names: Sequence[str]) -> str:
    return f"node '{', '.join(names)}'" if names else "an operator"


def _message(names: Sequence[str], limits: Sequence[str]) -> str:
    return f"{_named(names)}: an index is out of bounds for an axis of size {' or '.join(limits)}"


def _run(checker: tirx.PrimFunc, constants: Sequence[GenericConst]) -> None:
    """Run a check of constant indices at compile time."""
    compiled = tvm.compile(checker.with_attr("global_symbol", "check"), tvm.target.Target("llvm"))
    taken = [constant.value for constant in constants]
    try:
        compiled(*taken, *(tvm.runtime.empty(tensor.shape, tensor.dtype) for tensor in taken))
    except IndexError as err:
        raise OutOfBoundsError.of(err) from err


def _check_function(
    func: tirx.PrimFunc,
    taken: Sequence[int],
    sized: Sequence[int],
    accesses: Sequence[DataDependentIndex],
    message: str,
) -> tirx.PrimFunc:
    """Return a PrimFunc that copies the tensors with indices, and fails unless all indices are in bounds.

    Args:
        func: The PrimFunc with the accesses.
        taken: Indices of its parameters that are tensors of indices.
        sized: Indices of the parameters that are needed for size variables in their shapes, or as scalars.
        accesses: Accesses to check.
        message: Message of the error.
    """
    old = [func.params[place] for place in (*taken, *sized)]
    sizes: dict[Var, Var] = {var: tirx.Var(var.name, str(var.ty.dtype)) for p in old for var in _sizes(p)}
    params = [sizes[param] if param in sizes else _buffer(param, sizes) for param in old]
    copies = [_buffer(buffer, sizes, "_checked") for buffer in old[: len(taken)]]
    new = {**sizes, **dict(zip(old, params, strict=True))}
    bad = tirx.decl_buffer((1,), "int32", "bad", layout=None)
    zero = tirx.IntImm("int64", 0)
    steps: list[tirx.Stmt] = [tirx.AllocBuffer(bad), tirx.BufferStore(bad, tirx.IntImm("int32", 0), [zero])]
    for access in accesses:
        step = _comparison(access, new, bad)
        # Do not check an index twice: a scatter that adds both reads and writes at the same index.
        if not any(structural_equal(step, other, map_free_vars=True) for other in steps):
            steps.append(step)
    good = prim.EQ(tirx.BufferLoad(bad, [zero]), tirx.IntImm("int32", 0))
    # The names of the first two parameters of the constructor are exchanged in TVM 0.27.
    steps.append(tirx.AssertStmt(good, StringImm("IndexError"), [StringImm(message)]))
    steps += [_copy(*pair) for pair in zip(params[: len(taken)], copies, strict=True)]
    body = SBlockRealize([], True, SBlock([], [], [], _ROOT, tirx.SeqStmt(steps)))
    made = tirx.PrimFunc([*params, *copies], body)
    return made.with_attrs({"op_pattern": _OPAQUE, "tirx.noalias": True, "s_tir": True})


def _buffer(like: Var, sizes: Mapping[Var, Var], suffix: str = "") -> Var:
    shape = [structural_map(size, [(Var, lambda var: sizes.get(var, var))]) for size in like.ty.shape]
    return tirx.decl_buffer(shape, dtype_of(like), f"{like.name}{suffix}", layout=None)


def _comparison(access: DataDependentIndex, new: Mapping[Var, Var], bad: Var) -> tirx.Stmt:
    """Return loops that compute, for each element, bad |= condition and not 0 <= index < limit."""
    loops = [(tirx.Var(var.name, str(var.ty.dtype)), *steps) for var, *steps in access.loops]
    renamed = dict(new) | {old: var for (old, *_), (var, *_) in zip(access.loops, loops, strict=True)}

    def put(expr: Expr) -> Expr:
        return structural_map(expr, [(Var, lambda var: renamed.get(var, var))])

    index, limit = put(access.index), put(access.limit)
    wrong = prim.Or(index < tirx.const(0, str(index.ty.dtype)), _int64(index) >= _int64(limit))
    for condition in reversed(access.conditions):
        wrong = prim.And(put(condition), wrong)
    zero = tirx.IntImm("int64", 0)
    found = tirx.Cast("int32", wrong) | tirx.BufferLoad(bad, [zero])
    body: tirx.Stmt = tirx.BufferStore(bad, found, [zero])
    for var, start, extent in reversed(loops):
        body = tirx.For(var, put(start), put(extent), tirx.ForKind.SERIAL, body)
    return body


def _int64(value: Expr) -> Expr:
    return value if str(value.ty.dtype) == "int64" else tirx.Cast("int64", value)


def _copy(source: Var, target: Var) -> tirx.Stmt:
    loops = [tirx.Var(f"i{axis}", "int64") for axis in range(len(source.ty.shape))]
    body: tirx.Stmt = tirx.BufferStore(target, tirx.BufferLoad(source, loops), loops)
    for var, extent in zip(reversed(loops), reversed(list(source.ty.shape)), strict=True):
        start = tirx.const(0, str(var.ty.dtype))
        body = tirx.For(var, start, _int64(extent), tirx.ForKind.SERIAL, body)
    return body
