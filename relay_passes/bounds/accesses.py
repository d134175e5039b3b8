# SPDX-License-Identifier: Apache-2.0
"""Indirect accesses of a PrimFunc: loads and stores whose index is read from a tensor.

y[i] = x[t[i]]                      x at t[i]: elements of t must be indices of x
y[i] = x[max(min(t[i], 4), 0)]      proven, if x has 5 elements
if 0 <= t[i]: y[i] = x[t[i]]        t[i] may be negative, because then nothing is read
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tvm import ir, tirx
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm_ffi import structural_map, structural_walk

from relay_passes.bounds.intervals import NOTHING, Interval, Scope, dtype_of, interval, of_dtype

_ROUNDS = 4
"""Number of rounds after which the values that a tensor of a loop can have are no longer refined."""


@dataclass(frozen=True)
class DataDependentIndex:
    """An index of a load or a store that depends on an element of a tensor.

    Attributes:
        buffer: The accessed buffer.
        axis: Axis of the buffer that is indexed.
        index: The index expression.
        limit: Exclusive upper bound of valid indices.
        values: Interval of the possible values of the index; None if it is not known.
        loops: Variable, start and extent of the surrounding loops that the index or the conditions depend on,
            outermost first.
        conditions: Conditions of the access that also depend on elements of tensors.
    """

    buffer: ir.Var
    axis: int
    index: ir.Expr
    limit: ir.Expr
    values: Interval
    loops: tuple[tuple[ir.Var, ir.Expr, ir.Expr], ...]
    conditions: tuple[ir.Expr, ...]

    @property
    def proven(self) -> bool:
        """Whether every possible index is in bounds."""
        if not isinstance(self.limit, prim.IntImm):
            return False
        return self.values.within(Interval(0, int(self.limit) - 1))

    @property
    def exact(self) -> bool:
        """Whether index and conditions are integer expressions, which give the same values when computed again."""
        exprs = (self.index, *self.conditions)
        return all(of_dtype(dtype_of(each)) is not None for expr in exprs for each in _within(expr))

    @property
    def reads(self) -> set[ir.Var]:
        """The tensors and sizes that a check of the bounds reads."""
        exprs = [self.index, self.limit, *self.conditions]
        exprs += [expr for _, start, extent in self.loops for expr in (start, extent)]
        loops = {var for var, *_ in self.loops}
        found = {each for expr in exprs for each in _within(expr) if isinstance(each, ir.Var)}
        return {*found, *self.tensors} - loops

    @property
    def tensors(self) -> tuple[ir.Var, ...]:
        """The tensors that the index and the conditions read."""
        exprs = (self.index, *self.conditions)
        found = [each.source for expr in exprs for each in _within(expr) if isinstance(each, TensorLoad)]
        return tuple(dict.fromkeys(found))


@dataclass
class _Around:
    """The loops and conditions around a statement."""

    variables: dict[ir.Var, Interval] = field(default_factory=dict)
    extents: dict[ir.Var, tuple[ir.Expr, ir.Expr]] = field(default_factory=dict)
    bound: dict[ir.Var, ir.Expr] = field(default_factory=dict)
    conditions: tuple[ir.Expr, ...] = ()

    def under(self, condition: ir.Expr) -> "_Around":
        return _Around(self.variables, self.extents, self.bound, (*self.conditions, condition))


@dataclass(frozen=True)
class _IndexedStore:
    buffer: ir.Var
    indices: Sequence[ir.Expr]
    value: ir.Expr
    around: _Around


class Analysis:
    """The ranges of a PrimFunc's integer tensors, and its indirect accesses.

    Attributes:
        values: For each integer tensor, the interval of its elements.
        accesses: The accesses whose index depends on an element of a tensor.
    """

    def __init__(self, func: tirx.PrimFunc, given: Mapping[ir.Var, Interval]) -> None:
        """Analyse a function.

        Args:
            func: A PrimFunc whose buffers are not flattened.
            given: For parameters whose values are known, the interval of their elements.
        """
        self.values: dict[ir.Var, Interval] = dict(given)
        self._params = set(func.params)
        # Buffers that are written by calls, such as the runtime's sort, instead of stores.
        self._passed_on: set[ir.Var] = set()
        self._stores: list[_IndexedStore] = []
        self._reads: list[tuple[ir.Var, Sequence[ir.Expr], _Around]] = []
        self._statement(func.body, _Around())
        for buffer in dict.fromkeys(store.buffer for store in self._stores):
            self._learn(buffer)
        self.accesses = [
            access
            for buffer, indices, around in self._reads
            for access in self._indirect(buffer, indices, around)
        ]

    def _learn(self, buffer: ir.Var) -> None:
        """Find the interval of a tensor's elements from all stores to it, which in a reduction also read the tensor."""
        every = of_dtype(dtype_of(buffer))
        if every is None:
            return
        stores = [store for store in self._stores if store.buffer.same_as(buffer)]
        if buffer in self._passed_on:
            self.values[buffer] = every
            return
        self.values[buffer] = NOTHING
        for _ in range(_ROUNDS):
            found = NOTHING
            for store in stores:
                found = found.union(interval(store.value, self._scope(store.around)) or every)
            if found == self.values[buffer]:
                return
            self.values[buffer] = found
        self.values[buffer] = every

    def _scope(self, around: _Around) -> Scope:
        scope = Scope(around.variables, around.bound, lambda load: self.values.get(load.source))
        for condition in around.conditions:
            scope = scope.where(condition)
        return scope

    def _indirect(
        self, buffer: ir.Var, indices: Sequence[ir.Expr], around: _Around
    ) -> Iterator[DataDependentIndex]:
        scope = self._scope(around)
        for axis, index in enumerate(indices):
            if not loads_of(index, scope):
                continue
            limit = buffer.ty.shape[axis]
            values = interval(index, scope)
            if values is None:
                values = Interval(-(2**63), 2**63 - 1)
            index, *conditions = (
                self._of_arguments(expr, around)
                for expr in (index, *(c for c in around.conditions if loads_of(c, scope)))
            )
            used = {
                each for expr in (index, *conditions) for each in _within(expr) if isinstance(each, ir.Var)
            }
            loops = tuple((var, *steps) for var, steps in around.extents.items() if var in used)
            yield DataDependentIndex(buffer, axis, index, limit, values, loops, tuple(conditions))

    def _of_arguments(self, expr: ir.Expr, around: _Around) -> ir.Expr:
        """Return an equal expression of the function's arguments, by inlining temporary tensors where possible."""

        def changed(each: ir.Expr) -> ir.Expr:
            if isinstance(each, ir.Var):
                return self._of_arguments(around.bound[each], around) if each in around.bound else each
            stores = [store for store in self._stores if store.buffer.same_as(each.source)]
            if each.source in self._params or len(stores) != 1:
                return each
            (store,) = stores
            if not all(isinstance(index, ir.Var) for index in store.indices) or store.around.conditions:
                return each
            places = dict(zip(store.indices, each.indices, strict=True))
            if len(places) < len(store.indices):
                return each
            value = structural_map(
                self._of_arguments(store.value, store.around), [(ir.Var, lambda var: places.get(var, var))]
            )
            return self._of_arguments(value, around)

        return structural_map(expr, [((ir.Var, TensorLoad), changed)])

    def _statement(self, stmt: tirx.Stmt, around: _Around) -> None:
        match stmt:
            case tirx.SeqStmt():
                # A Bind defines its variable for the statements after it.
                for each in stmt.seq:
                    self._statement(each, around)
            case tirx.Bind():
                self._expression(stmt.value, around)
                around.bound[stmt.var] = stmt.value
            case tirx.For():
                self._expression(stmt.extent, around)
                inner = _inside(around, [(stmt.loop_var, stmt.min, stmt.extent)])
                self._statement(stmt.body, inner)
            case tirx.IfThenElse():
                self._expression(stmt.condition, around)
                self._statement(stmt.then_case, around.under(stmt.condition))
                if stmt.else_case is not None:
                    self._statement(stmt.else_case, around.under(prim.Not(stmt.condition)))
            case tirx.BufferStore():
                self._stores.append(_IndexedStore(stmt.buffer, list(stmt.indices), stmt.value, around))
                self._access(stmt.buffer, stmt.indices, around)
                self._expression(stmt.value, around)
            case SBlockRealize():
                self._block(stmt, around)
            case SBlock():
                self._passed_on.update(each.source.buffer for each in stmt.match_buffers)
                for part in (stmt.init, stmt.body):
                    if part is not None:
                        self._statement(part, around)
            case tirx.Evaluate():
                self._expression(stmt.value, around)
            case _:
                for name in ("condition", "data", "body"):
                    part = getattr(stmt, name, None)
                    if isinstance(part, tirx.Stmt):
                        self._statement(part, around)
                    elif part is not None:
                        self._expression(part, around)

    def _block(self, realize: SBlockRealize, around: _Around) -> None:
        if not (isinstance(realize.predicate, prim.IntImm) and int(realize.predicate)):
            around = around.under(realize.predicate)
        inner = _inside(around, [(v.var, v.dom.min, v.dom.extent) for v in realize.block.iter_vars])
        self._statement(realize.block, inner)

    def _access(self, buffer: ir.Var, indices: Sequence[ir.Expr], around: _Around) -> None:
        self._reads.append((buffer, list(indices), around))
        for index in indices:
            self._expression(index, around)

    def _expression(self, expr: ir.Expr, around: _Around) -> None:
        if isinstance(expr, TensorLoad):
            self._access(expr.source, expr.indices, around)
            return
        if _is_choice(expr):
            condition, yes, no = expr.args
            self._expression(condition, around)
            self._expression(yes, around.under(condition))
            self._expression(no, around.under(prim.Not(condition)))
            return
        if hasattr(expr.ty, "shape") and isinstance(expr, ir.Var):
            self._passed_on.add(expr)
        for operand in operands_of(expr):
            if isinstance(expr, ir.Call) and isinstance(operand, TensorLoad):
                # The callee may receive the operand's address, and write to it.
                self._passed_on.add(operand.source)
            self._expression(operand, around)


def _inside(around: _Around, loops: Sequence[tuple[ir.Var, ir.Expr, ir.Expr]]) -> _Around:
    inner = _Around(dict(around.variables), dict(around.extents), dict(around.bound), around.conditions)
    for var, start, extent in loops:
        inner.extents[var] = start, extent
        if isinstance(start, prim.IntImm) and isinstance(extent, prim.IntImm):
            inner.variables[var] = Interval(int(start), int(start) + int(extent) - 1)
    return inner


def _is_choice(expr: ir.Expr) -> bool:
    """Whether an expression is a conditional that evaluates only one of its branches."""
    return isinstance(expr, ir.Call) and str(getattr(expr.op, "name", "")).endswith("if_then_else")


def operands_of(expr: ir.Expr) -> list[ir.Expr]:
    """Return the operands of an expression of any class."""
    match expr:
        case TensorLoad():
            return list(expr.indices)
        case ir.Call():
            return [arg for arg in expr.args if isinstance(arg, ir.Expr)]
        case prim.Select():
            return [expr.condition, expr.true_value, expr.false_value]
        case prim.Cast() | prim.Broadcast():
            return [expr.value]
        case prim.Ramp():
            return [expr.base, expr.stride]
        case prim.Shuffle():
            return list(expr.vectors)
        case prim.Let():
            return [expr.value, expr.body]
    return [part for name in ("a", "b") if (part := getattr(expr, name, None)) is not None]


def clamped(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a copy of the function with the index of every indirect access clamped to the bounds."""
    read: set[ir.Var] = set()

    def note(bind: tirx.Bind) -> None:
        if _is_read(bind.value, read):
            read.add(bind.var)

    structural_walk(func.body, [(tirx.Bind, note)])

    def inside(buffer: ir.Var, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        return [
            _nearest(index, size) if _is_read(index, read) else index
            for index, size in zip(indices, buffer.ty.shape, strict=True)
        ]

    def load(expr: TensorLoad) -> ir.Expr:
        return tirx.BufferLoad(expr.source, inside(expr.source, expr.indices))

    def store(stmt: tirx.BufferStore) -> tirx.Stmt:
        return tirx.BufferStore(stmt.buffer, stmt.value, inside(stmt.buffer, stmt.indices), stmt.span)

    return func.with_body(structural_map(func.body, [(TensorLoad, load), (tirx.BufferStore, store)]))


def _is_read(expr: ir.Expr, read: set[ir.Var]) -> bool:
    return any(isinstance(each, TensorLoad) or each in read for each in _within(expr))


def _nearest(index: ir.Expr, size: ir.Expr) -> ir.Expr:
    dtype = dtype_of(index)
    return tirx.max(tirx.min(index, tirx.Cast(dtype, size) - tirx.const(1, dtype)), tirx.const(0, dtype))


def loads_of(expr: ir.Expr, scope: Scope) -> list[TensorLoad]:
    """Return all loads in an expression and in the definitions of its bound variables."""
    return [each for each in _within(expr, scope.bound) if isinstance(each, TensorLoad)]


def _within(expr: ir.Expr, bound: Mapping[ir.Var, ir.Expr] = MappingProxyType({})) -> Iterator[ir.Expr]:
    yield expr
    if isinstance(expr, ir.Var) and expr in bound:
        yield from _within(bound[expr], bound)
    for operand in operands_of(expr):
        yield from _within(operand, bound)
