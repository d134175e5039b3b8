# SPDX-License-Identifier: Apache-2.0
"""TVM's passes from TensorIR to LLVM's input, without those that have no effect here.

Half of the time of TVM's own list goes into CompactBufferAllocation, which shrinks buffers to what is accessed of them.
The kernels of `schedules`, whose accumulators have thousands of accesses, allocate buffers of the right size. A sixth
of the rest goes into HoistIfThenElse, which moves conditions out of loops that do not change them, and then simplifies
whole functions. In the kernels of `schedules` such conditions are outside of loops already. RemoveNoOp finds nothing in
them, either.
"""

from collections.abc import Callable, Set
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.ir import Call, Expr, StringImm, TensorLoad
from tvm.ir.prim import expr as prim
from tvm.ir.transform import Pass, PassContext, Sequential, module_pass
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.compilation_pipeline import finalize_device_passes, finalize_host_passes, register_tir_pipeline
from tvm_ffi import structural_map, structural_walk

from arm_ext.common.timings import section
from arm_ext.frontends.common.loops import close_loops
from relay_passes.canonicalize.define_casts import define_casts
from relay_passes.canonicalize.define_comparisons import define_comparisons
from relay_passes.lengths.fix_length import length_argument
from relay_passes.memory.new_tensors import NEW_TENSOR
from relay_passes.memory.plan_arena import ALIGNMENT
from relay_passes.memory.pointer_calls import STACK
from relay_passes.programs.add_step import KEEP, SWAP
from schedules.tir.emit import EXACT

_PIPELINE = "arm_ext"

PART = "arm_ext.part"
"""Attribute of a module that is linked to others: its only function is not the entry of all."""
APART = "arm_ext.apart"
"""Attribute of a function that is compiled to a separate object file, which is linked with that of its callers."""
TASKS = "arm_ext.tasks"
"""Attribute of a function that computes one iteration of a parallel loop."""
LEVEL = "arm_ext.level"
"""Attribute of a kernel in a package for several instruction-set levels: the level that the kernel is compiled for."""
POINTERS = "arm_ext.pointers"
"""Attribute of an `APART` function whose arguments are addresses of buffers, not tensors (`call_by_pointers`)."""

# Prefixes of the names of functions that are linked into model.so in addition to its kernels, and of their symbols
# (tvm::ffi::symbol::tvm_ffi_symbol_prefix).
_LINKED, _PREFIX = ("arm_ext_", NEW_TENSOR), "__tvm_ffi_"
_CALL_PACKED = tvm.ir.Op.get("tirx.tvm_call_packed")
_CALL_CPACKED = tvm.ir.Op.get("tirx.tvm_call_cpacked")
_EXTERN, _KEPT = tvm.ir.Op.get("tirx.call_extern"), "arm_ext_kept"
_CPU = 1  # kDLCPU
# Fields for tvm_struct_get and tvm_struct_set (TVMStructFieldKind in tvm/tirx/builtin.h).
_DATA, _BYTE_OFFSET, _TYPE_INDEX, _VALUE = 1, 8, 13, 15
# Type index of a tensor among the runtime's values, and size in bytes of the object header before its DLTensor
# (TVMFFITypeIndex and TVMFFIObject in tvm/ffi/c_api.h).
_TENSOR, _OBJECT_BYTES = 70, 24
_STATUS = tvm.ir.PrimType("int32")
_HANDLE = tvm.ir.PointerType(tvm.ir.PrimType("void"))
_C_PACKED = int(tvm.ir.CallingConv.C_PACKED_FUNC)
_ITEM, _BEHIND = (tvm.ir.Op.get(f"tirx.{name}") for name in ("anylist_getitem", "handle_add_byte_offset"))
# Annotation of an allocation that stays on the stack, whatever its size (kDisableLowerTVMBuiltin).
_STAYS = "disable_lower_builtin"
# A dtype whose alignment a stack arena gets: TVM limits an explicitly requested alignment to 16 bytes.
_LINE = f"uint8x{ALIGNMENT}"
# Name of the runtime's function that returns its argument.
_SAME = "vm.builtin.copy"
# Prefix of TVM's names for the machine code of Relax functions (VMTIRCodeGen).
_COMPILED = "__vmtir__"
# Maximum number of statements of `main` in one function of machine code; a kernel call has three. LLVM's time grows
# faster than the number of statements: a model with 1,600 kernels takes 20 s as one function, and 3 s in such
# parts.
_STATEMENTS = 512
SHORT = _STATEMENTS // 2
"""Largest number of bindings of a Relax function that is compiled as one function; a binding is two statements."""
# Maximum number of variables that a value may be computed from (each use counts) before it is stored
# (`_in_memory`).
_LARGE = 256
_BY_NAME, _BY_SYMBOL = (tvm.ir.Op.get(f"tirx.anylist_setitem_call_{kind}") for kind in ("packed", "cpacked"))


def _of_others(transform: Pass) -> Pass:
    """Return a pass that skips hand-written kernels, which the pass cannot improve."""

    def applied(mod: tvm.IRModule, _context: PassContext) -> tvm.IRModule:
        others = tirx.transform.Filter(lambda func: EXACT not in func.attrs)(mod)
        if not others.functions:
            return mod
        mod = mod.clone()
        mod.update(transform(others))
        return mod

    return module_pass(applied, opt_level=0)


def _keep_vectors(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Hide vectors of integers from TVM's simplifier by calls of an unknown function: v = x → v = kept(x).

    TVM's StmtSimplify puts the value of an integer variable in the place of each of its uses, which is meant for
    indices. In a chain of SDOT each link then holds all links before it: depthwise kernels grow to four times their
    size, for all passes that follow.
    """

    def kept(bind: tirx.Bind) -> tirx.Bind:
        return tirx.Bind(bind.var, Call(_EXTERN, [StringImm(_KEPT), bind.value], ret_ty=bind.value.ty))

    return _replaced(func, tirx.Bind, _is_computed_vector, kept)


def _is_computed_vector(bind: tirx.Bind) -> bool:
    """Whether a variable is a vector of integers that is computed instead of read from memory."""
    dtype = _dtype(bind.value)
    return dtype.startswith("int") and "x" in dtype and not isinstance(bind.value, TensorLoad)


def _replaced(
    func: tirx.PrimFunc,
    kinds: type | tuple[type, ...],
    is_replaced: Callable[[Any], bool],
    replace: Callable[[Any], Any],
) -> tirx.PrimFunc:
    """Return a function with some nodes of these kinds replaced; the function itself if there are none.

    It is walked first, as a walk takes a third of the time of a map.
    """
    found: list[Any] = []
    structural_walk(func.body, [(kinds, found.append)])
    if not any(map(is_replaced, found)):
        return func
    replacement = (kinds, lambda node: replace(node) if is_replaced(node) else node)
    return func.with_body(structural_map(func.body, [replacement]))


def _release_vectors(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Undo `_keep_vectors`."""

    def is_kept(bind: tirx.Bind) -> bool:
        call = bind.value
        return isinstance(call, Call) and call.op.same_as(_EXTERN) and call.args[0].value == _KEPT

    def released(bind: tirx.Bind) -> tirx.Bind:
        return tirx.Bind(bind.var, bind.value.args[1])

    return _replaced(func, tirx.Bind, is_kept, released)


def _in_memory(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Store large expressions in a local buffer, and read their variables from there: v = x → m[0] = x; v = m[0].

    TVM's code generator for LLVM tells its simplifier the value of each variable, which it writes out in the place of
    each of its uses. A value that reads another twice, as polynomials do, doubles that at each step: of 11 seconds for
    an LSTM's kernel this took 10. LLVM makes the same instructions of either form.
    """
    sizes: dict[tirx.Var, int] = {}
    large: set[tirx.Var] = set()
    size = 0

    def read(var: tirx.Var) -> None:
        nonlocal size
        size += sizes.get(var, 1)

    def bound(bind: tirx.Bind) -> None:
        nonlocal size
        if size > _LARGE and not _is_index(bind.value):
            large.add(bind.var)
            size = 1
        sizes[bind.var], size = size, 0

    def left(_stmt: tirx.Stmt) -> None:
        nonlocal size
        size = 0

    structural_walk(func.body, [(tirx.Var, read), (tirx.Bind, bound), (tirx.Stmt, left)])
    if not large:
        return func

    def stored(bind: tirx.Bind) -> tirx.Stmt:
        if bind.var not in large:
            return bind
        memory = tirx.decl_buffer((1,), bind.value.ty.dtype, bind.var.name, scope="local")
        store = tirx.BufferStore(memory, bind.value, [0])
        return tirx.SeqStmt([tirx.AllocBuffer(memory), store, tirx.Bind(bind.var, memory[0])])

    return func.with_body(structural_map(func.body, [(tirx.Bind, stored)]))


def _dtype(value: Expr) -> str:
    return str(getattr(value.ty, "dtype", "handle"))


def _is_index(value: Expr) -> bool:
    """Whether a value is an integer, a Boolean or a handle, the values that the simplifier is meant for."""
    dtype = _dtype(value)
    return dtype.startswith(("handle", "bool")) or (dtype.startswith(("int", "uint")) and "x" not in dtype)


# In TVM's order (tvm/s_tir/pipeline.py), without the passes for GPUs and their memories, 8-bit floats and options.
# `_lower` runs AnnotateEntryFunc, which marks the only function of a module.
_TO_BLOCKS = Sequential(
    [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        _of_others(s_tir.transform.CompactBufferAllocation()),
    ]
)


_TO_LOOPS = Sequential(
    [
        s_tir.transform.LowerMatchBuffer(),
        tirx.transform.prim_func_pass(lambda func, _mod, _context: _keep_vectors(func), opt_level=0),
        s_tir.transform.StmtSimplify(),
        s_tir.transform.AnnotateIrregularLoop(),
        s_tir.transform.LowerOpaqueBlock(),
    ]
)
_TO_FLAT = Sequential([tirx.transform.FlattenBuffer(), tirx.transform.BF16ComputeLegalize()])
# Indices that begin at a tensor's byte_offset, which has no known bound, stay 64-bit in a package's kernels. Those
# of a C library begin at 0, and would all become 32-bit. On a 64-bit CPU, LLVM then keeps vectors of convolutions
# with short segments on the stack.
_NARROW = tirx.transform.NarrowDataType(32)
_TO_CODE = Sequential(
    [
        s_tir.transform.LoopPartition(),
        tirx.transform.VectorizeLoop(),
        tirx.transform.StorageRewrite(),
        _of_others(s_tir.transform.HoistIfThenElse()),
        tirx.transform.UnrollLoop(),
        s_tir.transform.RenormalizeSplitPattern(),
        tirx.transform.StmtSimplify(),
        _of_others(tirx.transform.RemoveNoOp()),
        tirx.transform.prim_func_pass(lambda func, _mod, _context: _release_vectors(func), opt_level=0),
        s_tir.transform.RewriteUnsafeSelect(),
        # These passes run after VectorizeLoop, since they rewrite complete vectors.
        tirx.transform.prim_func_pass(lambda func, _mod, _context: define_casts(func), opt_level=0),
        tirx.transform.prim_func_pass(lambda func, _mod, _context: define_comparisons(func), opt_level=0),
        tirx.transform.CommonSubexprElim(),
        tirx.transform.VerifyMemory(),
    ]
)
_TO_PACKED = Sequential(
    [
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
        tirx.transform.BF16StorageLegalize(),
    ]
)


def _finalize() -> Pass:
    """Return TVM's last passes, followed by `_in_memory`."""
    in_memory = tirx.transform.prim_func_pass(lambda func, _mod, _context: _in_memory(func), opt_level=0)
    return Sequential([finalize_host_passes(), in_memory])


_TO_C = Sequential(
    [
        tirx.transform.prim_func_pass(lambda func, _mod, _context: _on_cpu(func), opt_level=0),
        tirx.transform.BF16StorageLegalize(),
        _finalize(),
    ]
)


def allocations(mod: tvm.IRModule) -> tvm.IRModule:
    """Lower blocks with their own buffers to loops with sized allocations."""
    return _TO_LOOPS(_TO_BLOCKS(mod))


def registered() -> str:
    """Register the passes with TVM, whose builders know pipelines only by name; return the name."""
    lower = module_pass(_lower, opt_level=0)
    register_tir_pipeline(_PIPELINE, lambda: (lower, _finalize, finalize_device_passes))
    return _PIPELINE


def _lower(mod: tvm.IRModule, _context: PassContext) -> tvm.IRModule:
    with section("TensorIR passes"):
        if PART not in (mod.attrs or {}) and len(mod.functions) == 1:
            mod = tirx.transform.AnnotateEntryFunc()(mod)
        apart = {gvar.name_hint for gvar, func in mod.functions_items() if APART in func.attrs}
        by_pointers = {
            gvar.name_hint
            for gvar, func in mod.functions_items()
            if {APART, POINTERS} <= set(func.attrs.keys())
        }
        mod = tvm.IRModule(
            {gvar: f for gvar, f in mod.functions_items() if APART not in f.attrs}, attrs=mod.attrs
        )
        mod = _pair_arguments(_keep_states(_each_compiled(mod, close_loops)), by_pointers)
        mod = _TO_CODE(_NARROW(_TO_FLAT(allocations(_call_outside(_in_parts(mod), apart)))))
        mod = _swap_states(_TO_PACKED(_taking_pointers(mod)))
        return _each_compiled(mod, _with_addresses)


def build_c_function(func: tirx.PrimFunc, target: tvm.target.Target) -> tvm.runtime.Module:
    """Generate machine code for a kernel as a C function of its buffers' addresses, which needs no runtime.

    A kernel with sizes that are known at run time has one parameter more, an int64_t: the length that they follow from.
    A kernel that is a parallel loop has a last parameter more, an int32_t: the number of the iteration to compute.
    A kernel with assertions (`assertions`) has a last parameter more: an int32_t that is set to 1 where one fails.

    Args:
        func: As `allocations` and then `hoist_all` leave it, with its `global_symbol`, by which C calls it. Each of its
            parameters is a buffer, or the length.
        target: Target for LLVM.
    """
    symbol = func.attrs["global_symbol"]
    with section("TensorIR passes"):
        mod = tvm.IRModule({symbol: _of_pointers(func).with_attr("target", target)}, attrs={PART: True})
        mod = _TO_FLAT(mod)
        mod = _TO_CODE(mod if _has_wide_addresses(target) else _NARROW(mod))
        (gvar,) = mod.get_global_vars()
        mod.update_func(gvar, _one_task(mod[gvar]))
        mod = _TO_C(mod)
    return tvm.get_global_func(f"target.build.{target.kind.name}")(mod, target)


def _has_wide_addresses(target: tvm.target.Target) -> bool:
    """Whether addresses have 64 bits, by the target's triple: aarch64, x86_64, riscv64."""
    return str(target.attrs["mtriple"]).partition("-")[0].endswith("64")


def _of_pointers(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace buffer parameters by pointers to the first element of each buffer.

    k(x: Buffer([n], offset=m)) { … x[i] … }    →    k(p: pointer, n) { x = Buffer([n], p, offset=0); … x[i] … }
    """
    length = length_argument(func)
    lengths = [] if length is None else [length]
    given = [param for param in func.params if not isinstance(param.ty, tvm.ir.PrimType)]
    flags = [tirx.decl_buffer((1,), "int32", "failed", layout=None)] if assertions(func) else []
    if flags:
        func = func.with_body(_flagging(func.body, flags[0]))
    held = [*given, *flags]
    pointers = [tirx.Var(param.name, tirx.buffer_data_pointer_type(param)) for param in held]
    buffers = [
        tirx.decl_buffer(param.ty.shape, str(param.ty.dtype), param.name, data=pointer)
        for param, pointer in zip(held, pointers, strict=True)
    ]
    offsets = [param.ty.elem_offset for param in held]
    replaced: dict[tvm.ir.Var, tvm.ir.Expr] = dict(zip(held, buffers, strict=True))
    replaced |= {n: tirx.IntImm(str(n.ty.dtype), 0) for n in offsets if isinstance(n, tirx.Var)}
    body = structural_map(func.body, [(tvm.ir.Var, lambda var: replaced.get(var, var))])
    declared = (
        tirx.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip(buffers, pointers, strict=True)
    )
    params = [*pointers[: len(given)], *lengths, *pointers[len(given) :]]
    return tirx.PrimFunc(params, tirx.SeqStmt([*declared, body]), func.ret_type, attrs=func.attrs)


def _one_task(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace a function's parallel loop by one iteration; the iteration's number becomes a parameter.

    Only now: until here the passes know from the loop what values its variable has.
    """
    if TASKS not in func.attrs:
        return func
    task = tirx.Var("task", "int32")

    def body_of(loop: tirx.For) -> tirx.Stmt:
        if loop.kind != tirx.ForKind.PARALLEL:
            return loop
        dtype = str(loop.loop_var.ty.dtype)
        index = task if dtype == "int32" else tirx.Cast(dtype, task)
        at = loop.min + index
        return structural_map(
            loop.body, [(tvm.ir.Var, lambda var: at if var.same_as(loop.loop_var) else var)]
        )

    body = structural_map(func.body, [(tirx.For, body_of)])
    return tirx.PrimFunc([*func.params, task], body, func.ret_type, attrs=func.attrs)


def assertions(func: tirx.PrimFunc) -> list[str]:
    """Return the messages of a kernel's assertions, such as for an index out of bounds."""
    found: list[tirx.AssertStmt] = []
    structural_walk(func.body, [(tirx.AssertStmt, found.append)])
    return ["".join(part.value for part in stmt.message_parts) for stmt in found]


def _flagging(body: tirx.Stmt, flag: tirx.Var) -> tirx.Stmt:
    """Replace assertions, which would raise an error of the runtime: assert c → if not c: flag[0] = 1."""
    one, first = tirx.IntImm("int32", 1), [tirx.IntImm("int64", 0)]

    def flagged(stmt: tirx.AssertStmt) -> tirx.Stmt:
        return tirx.IfThenElse(prim.Not(stmt.condition), tirx.BufferStore(flag, one, first), None)

    return structural_map(body, [(tirx.AssertStmt, flagged)])


def _on_cpu(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Set the device that a function runs on, as MakePackedAPI does; allocations need it."""
    body = tirx.AttrStmt("default", "device_type", _CPU, func.body)
    return func.with_body(tirx.AttrStmt("default", "device_id", 0, body))


def _in_parts(mod: tvm.IRModule) -> tvm.IRModule:
    """Split long functions lowered from Relax into parts that they call; parts share no variables.

    Values pass between the parts in the registers of the Relax VM, not of the CPU.
    """
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if not (gvar.name_hint.startswith(_COMPILED) and isinstance(func.body, tirx.SeqStmt)):
            continue
        statements = list(func.body.seq)
        runs = [statements[i : i + _STATEMENTS] for i in range(0, len(statements), _STATEMENTS)]
        parts = [func.with_body(tirx.SeqStmt(run) if len(run) > 1 else run[0]) for run in runs]
        # A stack arena exists in one function only, so such a function is not split.
        if any(_is_marker(stmt, STACK) for stmt in statements if isinstance(stmt, tirx.Evaluate)):
            continue
        if len(parts) == 1 or any(undefined_vars(part.body, part.params) for part in parts):
            continue
        calls = []
        for number, part in enumerate(parts):
            symbol = f"{gvar.name_hint}_part{number:05d}"
            out[symbol] = s_tir.renew_defs(part.with_attr("global_symbol", symbol))
            call = Call(_CALL_CPACKED, [StringImm(symbol), *func.params], ret_ty="int32")
            calls.append(tirx.Evaluate(call))
        out.update_func(out.get_global_var(gvar.name_hint), func.with_body(tirx.SeqStmt(calls)))
    return out


def _call_outside(mod: tvm.IRModule, apart: Set[str]) -> tvm.IRModule:
    """Call linked functions by symbol; compiled code finds functions by name only in other libraries.

    TVM declares a function of the name that it is given, and another each time, unless there is one of that name and
    its prefix: so the first call has the symbol, and those that follow find what it declared.
    """
    declared: set[str] = set()

    def symbol_of(name: StringImm) -> StringImm:
        symbol = name if name.value in declared else StringImm(_PREFIX + name.value)
        declared.add(name.value)
        return symbol

    def direct(call: Call) -> Call:
        op, args = call.op, list(call.args)
        if op.same_as(_BY_NAME) and args[2].value.startswith(_LINKED):
            op, args[2] = _BY_SYMBOL, symbol_of(args[2])
        elif op.same_as(_BY_SYMBOL) and args[2].value in apart:
            args[2] = symbol_of(args[2])
        elif op.same_as(_CALL_CPACKED) and args[0].value in apart:
            args[0] = symbol_of(args[0])
        else:
            return call
        return Call(op, args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)

    return _changed(mod, direct)


def _keep_states(mod: tvm.IRModule) -> tvm.IRModule:
    """Store values in the virtual machine's constants: k(entry, value), with k named KEEP → constants[entry] = value.

    The pool of constants is a list of the machine's own, like that of its registers (tvm/src/runtime/vm/vm.cc).
    """

    def kept(call: Call) -> Call:
        if not (call.op.same_as(_CALL_PACKED) and call.args[0].value == KEEP):
            return call
        _, entry, value = call.args
        args = [*entry.args, StringImm(_SAME), value]
        return Call(_BY_NAME, args, None, call.ty_args, call.span, ret_ty=call.ty)

    return _changed(mod, kept)


def _swap_states(mod: tvm.IRModule) -> tvm.IRModule:
    """Expand calls of SWAP, k(entry, other): exchange the tensors of two entries of the constant pool."""

    def swapped(stmt: tirx.Evaluate) -> tirx.Stmt:
        if not _is_marker(stmt, SWAP):
            return stmt
        entries = [entry.args for entry in stmt.value.args[1:]]
        tensors = [tirx.Var(name, _HANDLE) for name in ("first", "second")]
        loads = (
            tirx.Bind(tensor, tirx.tvm_struct_get(values, index, _VALUE, _HANDLE))
            for tensor, (values, index) in zip(tensors, entries, strict=True)
        )
        stores = (
            tirx.Evaluate(tirx.tvm_struct_set(values, index, _VALUE, tensor))
            for tensor, (values, index) in zip(reversed(tensors), entries, strict=True)
        )
        return tirx.SeqStmt([*loads, *stores])

    return _each_compiled(
        mod, lambda func: func.with_body(structural_map(func.body, [(tirx.Evaluate, swapped)]))
    )


def _is_marker(stmt: tirx.Evaluate, name: str) -> bool:
    call = stmt.value
    return isinstance(call, Call) and call.op.same_as(_CALL_PACKED) and call.args[0].value == name


def _pair_arguments(mod: tvm.IRModule, by_pointers: Set[str]) -> tvm.IRModule:
    """Combine tensor and offset in calls by address: k(x, 0, y, 64) → k(x + 0, y + 64)."""

    def paired(call: Call) -> Call:
        if not (call.op.same_as(_CALL_CPACKED) and call.args[0].value in by_pointers):
            # Functions called by pointers return nothing: a call that stores a result passes tensors, not addresses.
            assert not call.op.same_as(_BY_SYMBOL) or call.args[2].value not in by_pointers, call
            return call
        name, *args = call.args
        pairs = zip(args[::2], args[1::2], strict=True)
        addresses = (tirx.handle_add_byte_offset(value, offset) for value, offset in pairs)
        return Call(call.op, [name, *addresses], call.attrs, call.ty_args, call.span, ret_ty=call.ty)

    return _changed(mod, paired)


def _with_addresses(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Expand the addresses that `_pair_arguments` made, of tensors and of stack arenas.

    This comes last, since earlier passes would move the loads across calls that change the loaded values.
    """
    arenas: dict[tuple[str, int], tirx.Buffer] = {}

    def allocated(stmt: tirx.Evaluate) -> tirx.Stmt:
        if not _is_marker(stmt, STACK):
            return stmt
        _, text, size = stmt.value.args
        arena = tirx.decl_buffer((-(-int(size) // ALIGNMENT),), _LINE, "arena")
        arenas[_entry(text)] = arena
        return tirx.AllocBuffer(arena, {_STAYS: tirx.IntImm("bool", 1)})

    def address(call: Call) -> Call:
        within, offset = call.args if call.op.same_as(_BEHIND) else (None, None)
        if not (isinstance(within, Call) and within.op.same_as(_ITEM)):
            return call
        arena = arenas.get(_entry(within))
        data = _data(*within.args) if arena is None else tirx.address_of(arena[0])
        # A pointer passed as an int64 is not checked for null.
        return tirx.reinterpret("int64", tirx.handle_add_byte_offset(data, offset))

    body = structural_map(func.body, [(tirx.Evaluate, allocated)])
    return func.with_body(structural_map(body, [(Call, address)]))


def _entry(item: Call) -> tuple[str, int]:
    """Return the name of a list of the virtual machine, and the item's index in it."""
    return str(item.args[0].name), int(item.args[1])


def _data(values: Expr, index: Expr) -> Expr:
    """Return the address of the first element of a tensor in a list of the virtual machine."""
    is_object = tirx.tvm_struct_get(values, index, _TYPE_INDEX, "int32") == _TENSOR
    header = tirx.Select(is_object, tirx.IntImm("int64", _OBJECT_BYTES), tirx.IntImm("int64", 0))
    value = tirx.tvm_struct_get(values, index, _VALUE, _HANDLE)
    tensor = tirx.handle_add_byte_offset(value, header)
    data = tirx.tvm_struct_get(tensor, 0, _DATA, _HANDLE)
    return tirx.handle_add_byte_offset(data, tirx.tvm_struct_get(tensor, 0, _BYTE_OFFSET, "uint64"))


def _taking_pointers(mod: tvm.IRModule) -> tvm.IRModule:
    """Give functions with the attribute `POINTERS` a packed calling convention, so that MakePackedAPI skips them."""
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if POINTERS in func.attrs:
            out.update_func(gvar, _unchecked(func))
    return out


def _unchecked(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Lower a function as MakePackedAPI does, but with addresses as arguments and without checks.

    Buffers have an offset of 0 from their address, which is aligned for their elements only.
    """
    symbol, target = func.attrs["global_symbol"], func.attrs["target"]
    self_handle, args, result = (tirx.Var(name, _HANDLE) for name in ("self_handle", "args", "result"))
    compute = tirx.AttrStmt(0, "compute_scope", StringImm(f"{symbol}_compute_"), _on_cpu(func).body)
    body: list[tirx.Stmt] = []
    for index, param in enumerate(func.params):
        if isinstance(offset := param.ty.elem_offset, tvm.ir.Var):
            body.append(tirx.Bind(offset, tirx.IntImm(str(offset.ty.dtype), 0)))
        pointer = tirx.tvm_struct_get(args, index, _VALUE, _HANDLE)
        pointer = tirx.reinterpret(tirx.buffer_data_pointer_type(param), pointer)
        body.append(tirx.DeclBuffer(param, data=pointer))
    body += [compute, tirx.Return(tirx.IntImm("int32", 0))]
    params = [self_handle, args, tirx.Var("num_args", "int32"), result]
    packed = tirx.PrimFunc(params, tirx.SeqStmt(body), _STATUS, attrs=func.attrs)
    return packed.with_attrs(
        {"calling_conv": _C_PACKED, "global_symbol": _PREFIX + symbol, "target": target.host or target}
    )


def _changed(mod: tvm.IRModule, change: Callable[[Call], Call]) -> tvm.IRModule:
    """Apply `change` to all calls in the functions lowered from Relax."""
    return _each_compiled(mod, lambda func: func.with_body(structural_map(func.body, [(Call, change)])))


def _each_compiled(mod: tvm.IRModule, change: Callable[[tirx.PrimFunc], tirx.PrimFunc]) -> tvm.IRModule:
    """Apply `change` to each function lowered from Relax."""
    out = mod.clone()
    # In the order in which TVM generates the functions' machine code, which `_call_outside` needs.
    for gvar, func in sorted(mod.functions_items(), key=lambda item: item[0].name_hint):
        if gvar.name_hint.startswith(_COMPILED):
            out.update_func(gvar, change(func))
    return out
