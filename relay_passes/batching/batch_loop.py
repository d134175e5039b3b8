# SPDX-License-Identifier: Apache-2.0
"""The batch loop: a function for one sample becomes one for any number of samples, computed one after the other.

    f(x: [1, 3]) -> [1, 5]    →    f(x: [n, 3]) -> [n, 5]: y = alloc(n, 5); if n > 0: f_range(x, y, 0, n); return y
                                   f_range(x, y, i, j): if j - i == 1: y[i] = f_sample(x[i])
                                                        else: both halves of i … j, by f_range

The inputs of a sample are views of the batch's; its results are copied to the batch's outputs. The recursion is as deep
as n has bits.
"""

import math
from collections.abc import Sequence

import numpy as np
from tvm import IRModule, relax, te, tirx
from tvm.ir import Call, Expr, GlobalVar, TupleGetItem, TupleType, Type, Var
from tvm.relax import TensorType
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.memory.storage_offsets import accept_offsets

_NOTHING = TupleType([])


def batch_loop(mod: IRModule, name: str, batched: Sequence[int]) -> IRModule:
    """Make a function of one sample accept any number of samples.

    Args:
        mod: The planned module.
        name: Function of `mod` for one sample: the batch axis 0 of its inputs and outputs has size 1.
        batched: Indices of the parameters that have a batch axis.
    """
    return _BatchLoop(mod, name, batched).made()


class _BatchLoop:
    def __init__(self, mod: IRModule, name: str, batched: Sequence[int]) -> None:
        self._one: relax.Function = mod[name]
        self._name, self._batched = name, frozenset(batched)
        self._outputs = _fields(self._one.ret_ty)
        self._private = self._one.without_attr("global_symbol")
        self._builder = relax.BlockBuilder(mod)
        self._copies = [self._builder.add_func(_copy(ty), f"{name}_copy") for ty in self._outputs]
        # Create the names directly, because the builder would merge a new function with an equal one of another name.
        self._sample, self._range = (GlobalVar(f"{name}_{part}") for part in ("sample", "range"))

    def made(self) -> IRModule:
        over = self._over_range()
        main = self._main()
        out = self._builder.get()
        for symbol, func in ((self._sample, self._private), (self._range, over)):
            relax.expr._update_type(symbol, func.ty)
            out[symbol] = func
        out.update_func(out.get_global_var(self._name), main)
        return out

    def _params(self, count: Expr) -> list[Var]:
        return [
            Var(param.name, _of_samples(param.ty, count) if index in self._batched else param.ty)
            for index, param in enumerate(self._one.params)
        ]

    def _main(self) -> relax.Function:
        count = tirx.Var("samples", "int64")
        params, block = self._params(count), _BindingBlock()
        results = [block.bind("outputs", _allocated(_of_samples(ty, count))) for ty in self._outputs]
        some = block.bind("some", relax.prim_value(count > 0))
        call = self._again([*params, *results], 0, count)
        block.bind("done", relax.If(some, call, _BindingBlock().ended()))
        result = results[0] if isinstance(self._one.ret_ty, TensorType) else relax.Tuple(results)
        return block.function(params, result, self._one.attrs)

    def _over_range(self) -> relax.Function:
        """Return the function that computes samples `begin` to `end` (at least one)."""
        count, begin, end = (tirx.Var(name, "int64") for name in ("samples", "begin", "end"))
        params = self._params(count)
        results = [Var(f"output{k}", _of_samples(ty, count)) for k, ty in enumerate(self._outputs)]
        limits = Var("limits", relax.ShapeType([begin, end]))
        block = _BindingBlock()
        alone = block.bind("alone", relax.prim_value(tirx.EQ(end - begin, tirx.IntImm("int64", 1))))
        middle = begin + tirx.floordiv(end - begin, 2)
        halves = _BindingBlock()
        for first, last in ((begin, middle), (middle, end)):
            halves.bind("half", self._call_range([*params, *results], first, last))
        block.bind("done", relax.If(alone, self._one_sample(params, results, begin), halves.ended()))
        own = self._private.without_attr("num_input")
        return block.function([*params, *results, limits], relax.Tuple([]), own.attrs)

    def _one_sample(self, params: Sequence[Var], results: Sequence[Var], index: Expr) -> relax.SeqExpr:
        block = _BindingBlock()
        inputs = [
            block.bind("sample", _part(param, own.ty, index)) if k in self._batched else param
            for k, (param, own) in enumerate(zip(params, self._one.params, strict=True))
        ]
        found = block.bind("found", Call(self._sample, inputs, ret_ty=self._one.ret_ty))
        single = isinstance(self._one.ret_ty, TensorType)
        for k, (ty, result, copy) in enumerate(zip(self._outputs, results, self._copies, strict=True)):
            value = found if single else block.bind("output", TupleGetItem(found, k))
            place = block.bind("place", _part(result, ty, index))
            block.bind("copied", Call(copy, [value, place], ret_ty=_NOTHING))
        return block.ended()

    def _again(self, tensors: Sequence[Var], first: object, last: Expr) -> relax.SeqExpr:
        block = _BindingBlock()
        block.bind("all", self._call_range(tensors, first, last))
        return block.ended()

    def _call_range(self, tensors: Sequence[Var], first: object, last: Expr) -> Call:
        return Call(self._range, [*tensors, relax.ShapeExpr([first, last])], ret_ty=_NOTHING)


class _BindingBlock:
    """Builder of a block of consecutive bindings."""

    def __init__(self) -> None:
        self._bindings: list[relax.Binding] = []

    def bind(self, name: str, value: Expr) -> Var:
        var = Var(name, _type_of(value))
        self._bindings.append(relax.VarBinding(var, value))
        return var

    def ended(self) -> relax.SeqExpr:
        nothing = self.bind("nothing", relax.Tuple([]))
        return relax.SeqExpr([relax.BindingBlock(self._bindings)], nothing)

    def function(self, params: Sequence[Var], result: Expr, attrs: object) -> relax.Function:
        body = relax.SeqExpr([relax.BindingBlock(self._bindings)], result)
        return relax.Function(params, body, _type_of(result), is_pure=False, attrs=attrs)


def _type_of(value: Expr) -> Type:
    if isinstance(value, relax.If):
        return _NOTHING
    return TupleType([field.ty for field in value.fields]) if isinstance(value, relax.Tuple) else value.ty


def _fields(ty: Type) -> list[TensorType]:
    return list(ty.fields) if isinstance(ty, TupleType) else [ty]


def _of_samples(ty: TensorType, count: Expr) -> TensorType:
    return TensorType([count, *list(ty.shape.values)[1:]], ty.dtype)


def _shape(ty: TensorType) -> relax.ShapeExpr:
    return relax.ShapeExpr(list(ty.shape.values))


def _part(tensor: Var, ty: TensorType, index: Expr) -> Expr:
    """Return a call that makes a view of one sample of a tensor."""
    size = math.prod(int(dim) for dim in ty.shape.values) * np.dtype(str(ty.dtype)).itemsize
    return _typed(R.memory.view(tensor, _shape(ty), str(ty.dtype), relax.prim_value(index * size)), ty)


def _allocated(ty: TensorType) -> Call:
    return _typed(R.builtin.alloc_tensor(_shape(ty), str(ty.dtype), 0), ty)


def _typed(call: Call, ty: Type) -> Call:
    return Call(call.op, call.args, call.attrs, call.ty_args, None, ret_ty=ty)


def _copy(ty: TensorType) -> tirx.PrimFunc:
    source = te.placeholder([int(dim) for dim in ty.shape.values], str(ty.dtype), "source")
    copied = te.compute(source.shape, lambda *at: source(*at), "copied")
    mod = accept_offsets(IRModule({"copy": te.create_prim_func([source, copied])}))
    return mod["copy"].without_attr("global_symbol")
