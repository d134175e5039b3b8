# SPDX-License-Identifier: Apache-2.0
"""Calls of kernels with addresses of buffers instead of tensor objects.

    a = alloc_tensor(storage, 64, …); k(x, weights, a)
    b = alloc_tensor(storage, 0, …); l(a, b)
    →
    check(x)
    arena = alloc_tensor(storage, 0, the whole of it)
    k(x, 0, weights, 0, arena, 64); l(arena, 64, arena, 0)

Each argument becomes two: a tensor, and the offset in bytes of the buffer from the tensor's start. So the runtime does
not create, check and free a tensor object in each run for buffers that only kernels use. The checks that each kernel
made on its arguments, such as compact strides, are made once, on the arguments of the entry functions. Kernels with
dynamic shapes are still called with tensors. A small arena is allocated on the stack of the calling function, so that a
call needs no heap allocation and several threads can execute it at once.
"""

from collections.abc import Collection

from tvm import IRModule, relax, tirx
from tvm.ir import Call, Expr, GenericConst, GlobalVar, StringImm, TupleGetItem, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm.relax.analysis import free_vars
from tvm.tirx.buffer import BufferType
from tvm_ffi import structural_map

from relay_passes.ir.sources import bindings_of, relax_functions

CHECK = "__vmtir__inputs"
"""Name of the function that checks inputs. Its prefix marks functions of the virtual machine, which are no kernels."""

STACK = "stack_arena"
"""Name of a call (text, number of bytes) that the code generator replaces by an allocation of the arena on the stack.
In calls of kernels, the text stands for that arena."""

# Maximum size of an arena on the stack: an eighth of the smallest usual thread stack (128 KiB, musl's default).
_STACK_BYTES = 1 << 14

_CHECKED = 32
"""Most inputs that one function checks: of 200 inputs LLVM takes 14 seconds in one function, and 1 in several."""

_ALLOC_TENSOR = ("relax.memory.alloc_tensor",)
# Operators whose result has the same address as their first operand.
_SAME_ADDRESS = ("relax.reshape", "relax.memory.ensure_zero_offset")

_VIEW = ("relax.memory.view",)

_NOTHING = relax.TupleType([])

_Address = tuple[Expr, int]
"""Address of a buffer: the tensor that it lies in, and its offset in that tensor in bytes."""


def takes_pointers(func: tirx.PrimFunc) -> bool:
    """Whether a kernel can be called with addresses: it has parameters, and all are buffers of static shape."""
    return bool(func.params) and all(
        isinstance(param.ty, BufferType)
        and not param.ty.strides
        and all(isinstance(size, tirx.IntImm) for size in param.ty.shape)
        for param in func.params
    )


def call_by_pointers(
    mod: IRModule, kernels: Collection[str], entries: Collection[str], short: int = 0
) -> IRModule:
    """Pass addresses instead of tensors to kernels.

    Args:
        mod: Module after memory planning.
        kernels: Names of the kernels that are called with addresses. The code generator must merge each pair of
            arguments.
        entries: Functions that are called from outside; checks of their tensors are inserted.
        short: Functions with fewer bindings may have a small arena on the stack.
    """
    functions = relax_functions(mod)
    builder = relax.BlockBuilder()  # without the module: with it, the builder would hash all kernels
    changed = {}
    for gv, func in functions:
        if any(_is_call(binding.value, kernels) for binding in bindings_of(func)):
            func = _Addresses(func, kernels).rewritten(short)
        if gv.name_hint in entries:
            func = _with_check(builder, func)
        changed[gv] = func
    out = mod.clone()
    out.update(builder.get())
    for gv, func in changed.items():
        out.update_func(gv, func)
    return _untyped(out)


def _untyped(mod: IRModule) -> IRModule:
    """Remove the types of kernels, so that they can be called with arguments of other types, such as state entries."""
    kernels = {
        gv: GlobalVar(gv.name_hint) for gv, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)
    }
    for gv in kernels.values():
        relax.expr._update_type(gv, relax.FuncType.opaque_func(ret=_NOTHING))
    functions = {
        kernels.get(gv, gv): structural_map(func, [(GlobalVar, lambda called: kernels.get(called, called))])
        if isinstance(func, relax.Function)
        else func
        for gv, func in mod.functions_items()
    }
    return IRModule(functions, attrs=mod.attrs)


class _Addresses:
    """The addresses of the buffers of a function, as (tensor, offset)."""

    def __init__(self, func: relax.Function, kernels: Collection[str]) -> None:
        self._func, self._kernels = func, kernels
        self._bindings = bindings_of(func)
        self._arenas: dict[Var, Var] = {}
        self._tuples = {b.var: b.value for b in self._bindings if isinstance(b.value, relax.Tuple)}
        self._known: dict[Var, _Address] = {}
        for binding in self._bindings:
            address = self._address(binding.value) if isinstance(binding, relax.VarBinding) else None
            if address is not None:
                self._known[binding.var] = address

    def rewritten(self, short: int) -> relax.Function:
        """Return a copy of the function with addresses in its kernel calls."""
        seen = self._seen_elsewhere()
        on_stack = self._on_stack(seen) if len(self._bindings) < short else None
        text = StringImm(STACK)
        used: set[Expr] = set()

        def call(value: Call) -> Call:
            args: list[Expr] = []
            for within, offset in (self._address(arg) or (arg, 0) for arg in value.args):
                used.add(within)
                is_stack = on_stack is not None and within.same_as(self._arenas[on_stack])
                args += [text if is_stack else within, relax.prim_value(offset)]
            # Called as an extern function, because the arguments differ from those of the module's function.
            kernel = relax.ExternFunc(value.op.name_hint, relax.FuncType.opaque_func(ret=_NOTHING))
            return Call(kernel, args, value.attrs, value.ty_args, value.span, ret_ty=value.ty)

        calls = {b.var: call(b.value) for b in self._bindings if _is_call(b.value, self._kernels)}

        def block(old: relax.BindingBlock) -> relax.BindingBlock:
            new: list[relax.Binding] = []
            for binding in old.bindings:
                if on_stack is not None and binding.var.same_as(on_stack):
                    new.append(_stack(text, self._arenas[on_stack]))
                    continue
                if binding.var in calls:
                    new.append(relax.VarBinding(binding.var, calls[binding.var], binding.span))
                elif binding.var in seen or not self._is_transparent(binding.var):
                    new.append(binding)
                arena = self._arenas.get(binding.var)
                if arena is not None and arena in used:
                    new.append(relax.VarBinding(arena, _whole(binding.var, arena)))
            return relax.BindingBlock(new)

        return structural_map(self._func, [(relax.BindingBlock, block)])

    def _on_stack(self, seen: Collection[Var]) -> Var | None:
        """Return the function's storage if it is its only one, small, and used by kernels alone; else None."""
        if len(self._arenas) != 1:
            return None
        ((storage, arena),) = self._arenas.items()
        (size,) = arena.ty.shape.values
        is_small = isinstance(size, tirx.IntImm) and int(size) <= _STACK_BYTES
        return storage if is_small and storage not in seen else None

    def _address(self, value: Expr) -> _Address | None:
        """Return the address of a value; None for a tensor object that the runtime creates."""
        if isinstance(value, Var):
            known: _Address = self._known.get(value, (value, 0))
            return known
        if isinstance(value, GenericConst):
            return value, 0
        if isinstance(value, TupleGetItem) and value.tuple_value in self._tuples:
            return self._address(self._tuples[value.tuple_value].fields[value.index])
        if _is_op(value, _SAME_ADDRESS):
            return self._address(value.args[0])
        if _is_op(value, _VIEW) and isinstance(value.args[-1], tirx.IntImm):
            within, start = self._address(value.args[0]) or (value.args[0], 0)
            return within, start + int(value.args[-1])
        if _is_op(value, _ALLOC_TENSOR):
            storage, offset = value.args[:2]
            return self._arena(storage), int(offset)
        return None

    def _arena(self, storage: Var) -> Var:
        if storage not in self._arenas:
            made = next(binding.value for binding in self._bindings if binding.var.same_as(storage))
            ty = relax.TensorType(made.args[0].values, "uint8")
            self._arenas[storage] = Var(f"{storage.name}_bytes", ty)
        return self._arenas[storage]

    def _seen_elsewhere(self) -> set[Var]:
        """Return the variables that have other uses than kernel calls and aliases."""
        seen = set(free_vars(self._func.body.body))
        for binding in reversed(self._bindings):
            value = binding.value
            if isinstance(value, relax.If):
                for expr in (value.cond, value.true_branch.body, value.false_branch.body):
                    seen.update(free_vars(expr))
            elif binding.var in seen or not (
                self._is_transparent(binding.var) or _is_call(value, self._kernels)
            ):
                seen.update(free_vars(value))
        return seen

    def _is_transparent(self, var: Var) -> bool:
        """Whether a variable is bound to an alias or a tuple, which need no code."""
        return var in self._known or var in self._tuples


def _is_op(value: Expr, names: Collection[str]) -> bool:
    return isinstance(value, Call) and getattr(value.op, "name", "") in names


def _is_call(value: Expr, kernels: Collection[str]) -> bool:
    return isinstance(value, Call) and isinstance(value.op, GlobalVar) and value.op.name_hint in kernels


def _stack(text: StringImm, arena: Var) -> relax.VarBinding:
    args = [text, relax.prim_value(arena.ty.shape.values[0])]
    call = Call(relax.ExternFunc(STACK), args, ret_ty=_NOTHING)
    return relax.VarBinding(Var("stack", call.ty), call)


def _whole(storage: Var, arena: Var) -> Call:
    """Return a call that allocates a uint8 tensor of all bytes of a storage."""
    made = R.memory.alloc_tensor(storage, 0, arena.ty.shape, "uint8")
    return Call(made.op, made.args, made.attrs, made.ty_args, ret_ty=arena.ty)


def _with_check(builder: relax.BlockBuilder, func: relax.Function) -> relax.Function:
    """Return a copy of the function with a check of its tensor arguments, by a PrimFunc whose arguments TVM checks."""
    params = {p: p for p in func.params if isinstance(p.ty, relax.TensorType) and p.ty.shape is not None}
    if not params:
        return func
    groups = [list(params)[first : first + _CHECKED] for first in range(0, len(params), _CHECKED)]
    checks = [builder.add_func(_checking([_buffer(param) for param in group]), CHECK) for group in groups]
    # Parameters that are passed to other Relax functions keep their types.
    calls = [
        b.value for b in bindings_of(func) if isinstance(b.value, Call) and isinstance(b.value.op, GlobalVar)
    ]
    typed = {arg for call in calls for arg in call.args}
    is_static = all(isinstance(size, tirx.IntImm) for param in params for size in param.ty.shape.values)
    if is_static and typed.isdisjoint(params):
        # With type Any, the virtual machine does not check the arguments again, which would take 20 times as long.
        params = {param: Var(param.name, relax.AnyType()) for param in params}
        func = structural_map(func, [(Var, lambda var: params.get(var, var))])
    checked = [
        Call(check, [params[param] for param in group], ret_ty=_NOTHING)
        for check, group in zip(checks, groups, strict=True)
    ]
    first = relax.BindingBlock([relax.VarBinding(Var("checked", call.ty), call) for call in checked])
    body = relax.SeqExpr([first, *func.body.blocks], func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)


def _checking(buffers: list[Var]) -> tirx.PrimFunc:
    """Return a PrimFunc that asserts that its arguments are compact; TVM inserts checks of dtypes and shapes."""
    asserts = [
        tirx.AssertStmt(
            _is_compact(buffer),
            StringImm("ValueError"),
            [StringImm(f"{buffer.name} is not compact: its strides")],
        )
        for buffer in buffers
    ]
    body = tirx.SeqStmt([*asserts, tirx.Evaluate(0)])
    return tirx.PrimFunc(buffers, body).with_attr("s_tir", True)


def _is_compact(buffer: Var) -> Expr:
    conditions, stride = tirx.IntImm("bool", 1), tirx.IntImm("int64", 1)
    for size, found in zip(reversed(buffer.ty.shape), reversed(buffer.ty.strides), strict=True):
        conditions = tirx.And(conditions, tirx.Or(size == 1, found == stride))
        stride = stride * size
    return conditions


def _buffer(param: Var) -> Var:
    """Return a buffer with a tensor's shape and dtype, in which dynamic sizes are free variables."""

    def number(what: str) -> Var:
        return tirx.Var(f"{param.name}_{what}", "int64")

    sizes = list(param.ty.shape.values)
    return tirx.decl_buffer(
        [size if isinstance(size, tirx.IntImm) else number(f"size{axis}") for axis, size in enumerate(sizes)],
        str(param.ty.dtype),
        str(param.name),
        strides=[number(f"stride{axis}") for axis in range(len(sizes))],
        elem_offset=number("offset"),
        offset_factor=1,
        layout=None,
    )
