# SPDX-License-Identifier: Apache-2.0
"""Calls of kernels with addresses of their buffers instead of tensors.

    a = alloc_tensor(storage, 64, …); k(x, weights, a)
    b = alloc_tensor(storage, 0, …); l(a, b)
    →
    check(x)
    arena = alloc_tensor(storage, 0, the whole of it)
    k(x, 0, weights, 0, arena, 64); l(arena, 64, arena, 0)

Each argument becomes two: a tensor, and the distance in bytes from its beginning to the buffer's. A tensor that kernels
alone see is then no object that the runtime makes, checks and frees in each run. What every kernel checked of its
arguments, such as that they are compact, is checked of a function's arguments alone. Kernels with sizes that are known
at run time are called with tensors as before. A small arena is on the stack of the function that calls the kernels,
which allocates nothing, and which several threads may do at once.
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
"""Name of the function that checks inputs. It is no kernel: names of the virtual machine's functions begin so."""

STACK = "stack_arena"
"""What calls that name as (text, number) the code generator makes an arena on the stack, of as many bytes; the text
stands for it in calls of kernels."""

# Of an arena on the stack: an eighth of the smallest stack that a thread commonly has (128 KiB, musl's).
_STACK_BYTES = 1 << 14

_ALLOC_TENSOR = ("relax.memory.alloc_tensor",)
# What has the address of its first operand.
_SAME_ADDRESS = ("relax.reshape", "relax.memory.ensure_zero_offset")

_NOTHING = relax.TupleType([])

_Address = tuple[Expr, int]
"""Of a buffer: the tensor that it lies in, and how many bytes from that one's beginning it begins."""


def takes_pointers(func: tirx.PrimFunc) -> bool:
    """Whether the addresses of its buffers are all that a kernel has to be told: their sizes are known."""
    return all(
        isinstance(param.ty, BufferType)
        and not param.ty.strides
        and all(isinstance(size, tirx.IntImm) for size in param.ty.shape)
        for param in func.params
    )


def call_by_pointers(
    mod: IRModule, kernels: Collection[str], entries: Collection[str], short: int = 0
) -> IRModule:
    """Pass addresses to kernels.

    Args:
        mod: Planned.
        kernels: Those that take pointers. Code for such a call has to make an address of each pair of arguments.
        entries: Functions that are called from outside: those that they call get tensors that were checked.
        short: Functions of fewer bindings have a small arena on the stack.
    """
    functions = relax_functions(mod)
    builder = relax.BlockBuilder()  # with the module it would hash all kernels
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
    """Let kernels be called with what has another type than their tensors: entries of states, inputs of any type."""
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
    """Where the buffers of a function are."""

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
        """Return the function with addresses in its calls of kernels."""
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
            # By name, since it has other arguments than the function of the module.
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
        """Return the storage that may be on the stack: the only one, small, and of kernels alone."""
        if len(self._arenas) != 1:
            return None
        ((storage, arena),) = self._arenas.items()
        (size,) = arena.ty.shape.values
        is_small = isinstance(size, tirx.IntImm) and int(size) <= _STACK_BYTES
        return storage if is_small and storage not in seen else None

    def _address(self, value: Expr) -> _Address | None:
        """Return the address of what a variable is bound to; None where it is a tensor of its own."""
        if isinstance(value, Var):
            known: _Address = self._known.get(value, (value, 0))
            return known
        if isinstance(value, GenericConst):
            return value, 0
        if isinstance(value, TupleGetItem) and value.tuple_value in self._tuples:
            return self._address(self._tuples[value.tuple_value].fields[value.index])
        if _is_op(value, _SAME_ADDRESS):
            return self._address(value.args[0])
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
        """Return the variables that more than calls of kernels, and what has the same address, use."""
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
        """Whether nothing is made where a variable is bound but an address, or a tuple of tensors."""
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
    """A tensor of all bytes of a storage."""
    made = R.memory.alloc_tensor(storage, 0, arena.ty.shape, "uint8")
    return Call(made.op, made.args, made.attrs, made.ty_args, ret_ty=arena.ty)


def _with_check(builder: relax.BlockBuilder, func: relax.Function) -> relax.Function:
    """Check the tensors that a function is given, before all else, by what TVM checks of each function's arguments."""
    params = {p: p for p in func.params if isinstance(p.ty, relax.TensorType) and p.ty.shape is not None}
    if not params:
        return func
    check = builder.add_func(_checking([_buffer(param) for param in params]), CHECK)
    # What functions with types of their own are given keeps its type.
    calls = [
        b.value for b in bindings_of(func) if isinstance(b.value, Call) and isinstance(b.value.op, GlobalVar)
    ]
    typed = {arg for call in calls for arg in call.args}
    is_static = all(isinstance(size, tirx.IntImm) for param in params for size in param.ty.shape.values)
    if is_static and typed.isdisjoint(params):
        # Then nothing is left for the virtual machine to check, which takes twenty times as long.
        params = {param: Var(param.name, relax.AnyType()) for param in params}
        func = structural_map(func, [(Var, lambda var: params.get(var, var))])
    call = Call(check, list(params.values()), ret_ty=_NOTHING)
    first = relax.BindingBlock([relax.VarBinding(Var("checked", call.ty), call)])
    body = relax.SeqExpr([first, *func.body.blocks], func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)


def _checking(buffers: list[Var]) -> tirx.PrimFunc:
    """A function that asserts that its arguments are compact; TVM makes it check their types and sizes first."""
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
    """A buffer like a tensor; sizes that are known at run time alone are any."""

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
