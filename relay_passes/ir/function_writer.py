# SPDX-License-Identifier: Apache-2.0
"""Writing of a function anew, where changed calls change the types of the values behind them."""

from tvm import relax
from tvm.ir import Call, Expr, TupleGetItem, Var
from tvm_ffi import structural_map

from relay_passes.ir.sources import Names, sources_of, with_source


class FunctionWriter:
    """Writes a function binding by binding. Types are inferred again; a call keeps its source names.

    A subclass overrides `changed`, and may put parameters of other types into `_new` first.
    """

    def __init__(self, func: relax.Function) -> None:
        """Take a function in A-normal form whose blocks are dataflow blocks."""
        self._func = func
        self._builder = relax.BlockBuilder()
        self._bindings: list[relax.Binding] = []
        self._new: dict[Var, Var] = {}

    def changed(self, var: Var, call: Call) -> Expr:
        """Return what is bound in the place of a call: here the same call on the new operands.

        Args:
            var: The variable of the given function that the call is bound to.
            call: The call of the given function.
        """
        del var
        return self._renamed(call)

    def run(self) -> relax.Function:
        """Return the new function, without values that nothing reads any more."""
        func, blocks = self._func, []
        for block in func.body.blocks:
            self._bindings = []
            for binding in block.bindings:
                self._binding(binding)
            blocks.append(relax.DataflowBlock(self._bindings))
        body = self._renamed(func.body.body)
        params = [self._new.get(param, param) for param in func.params]
        # With parameters of other sizes the result has another type, too.
        ty = func.ret_ty if params == list(func.params) else body.ty
        new = relax.Function(params, relax.SeqExpr(blocks, body), ty, func.is_pure)
        new = relax.analysis.remove_all_unused(self._builder.normalize(new))
        return new.with_attrs(func.attrs) if func.attrs else new

    def _binding(self, binding: relax.Binding) -> None:
        var, value = binding.var, binding.value
        if isinstance(binding, relax.MatchCast):
            self._bindings.append(relax.MatchCast(var, self._renamed(value), binding.ty))
            return
        if isinstance(value, TupleGetItem):
            new = TupleGetItem(self._renamed(value.tuple_value), value.index)
        else:
            new = self.changed(var, value) if isinstance(value, Call) else self._renamed(value)
        new = self._builder.normalize(new)
        self._new[var] = type(var)(var.name, new.ty)
        named = with_source(new, sources_of(value)) if isinstance(new, Call) else new
        self._bindings.append(relax.VarBinding(self._new[var], named))

    def _renamed(self, expr: Expr) -> Expr:
        return structural_map(expr, [(Var, lambda var: self._new.get(var, var))])

    def _emit(self, expr: Expr, names: Names) -> Var:
        expr = self._builder.normalize(expr)
        var = relax.DataflowVar("lv", expr.ty)
        self._bindings.append(relax.VarBinding(var, with_source(expr, names)))
        return var
