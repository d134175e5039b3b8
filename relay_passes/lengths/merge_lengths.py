# SPDX-License-Identifier: Apache-2.0
"""Merging of static modules for several lengths into one module whose length is a variable.

    length 40: f(x: [1, 40, 8]) = pool(x): [1, 20, 8]
    length 48: f(x: [1, 48, 8]) = pool(x): [1, 24, 8]    →    f(x: [1, n, 8]) = pool(x): [1, n // 2, 8]

The modules may only differ in integers, and each differing integer must be a linear function of the length, or the
quotient of one by a small number. Two lengths determine the function; other lengths must agree with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import IRModule, relax, tirx
from tvm.ir import BaseFunc, Expr, Var
from tvm_ffi import structural_map

from relay_passes.ir.sources import bindings_of, sources_of
from relay_passes.lengths.fix_length import dims_of
from relay_passes.lengths.growing_constants import equal_tensors, tensors_of
from relay_passes.lengths.merge_functions import DifferentError, Graphs, Numbers
from relay_passes.programs.merge_modules import add_functions
from schedules.diagnostic import Diagnostic

_DIVISORS = (1, 2, 3, 4, 8)
"""Strides of convolutions and pools, alone and multiplied, that lengths are divided by."""


@dataclass(frozen=True)
class LinearSize:
    """The size (times * length + plus) // by."""

    times: int
    plus: int
    by: int = 1

    def of(self, length: Expr) -> Expr:
        """Return the size as a TIR expression of the length."""
        value = length * tirx.IntImm("int64", self.times) if self.times != 1 else length
        value = value + tirx.IntImm("int64", self.plus) if self.plus else value
        return tirx.floordiv(value, tirx.IntImm("int64", self.by)) if self.by != 1 else value


def form_of(numbers: Numbers, lengths: Numbers) -> LinearSize | None:
    """Return the unique `LinearSize` with these values for these lengths; None if there is none, or more than one."""
    rise, run = numbers[1] - numbers[0], lengths[1] - lengths[0]
    if run and rise % run == 0:
        linear = LinearSize(rise // run, numbers[0] - rise // run * lengths[0])
        if all(linear.times * n + linear.plus == number for n, number in zip(lengths, numbers, strict=True)):
            return linear
    for by in _DIVISORS[1:]:
        first = numbers[0] * by - lengths[0]
        fits = [
            LinearSize(1, plus, by)
            for plus in range(first, first + by)
            if all((n + plus) // by == number for n, number in zip(lengths, numbers, strict=True))
        ]
        if fits:
            return fits[0] if len(fits) == 1 else None
    return None


def merge_lengths(modules: Sequence[IRModule], lengths: Numbers, name: str) -> IRModule | Diagnostic:
    """Return the merged module for any length, or why the modules cannot be merged.

    Args:
        modules: The module for each length, after the same phases.
        lengths: The lengths, at least two.
        name: Name of the length variable.
    """
    symbols = [{str(gv.name_hint) for gv in mod.get_global_vars()} for mod in modules]
    if any(each != symbols[0] for each in symbols):
        return first_difference(modules) or Diagnostic.of("its functions differ with the length")
    functions: dict[str, BaseFunc] = {}
    for symbol in sorted(symbols[0]):
        try:
            functions[symbol] = merge_functions([mod[symbol] for mod in modules], lengths, name)
        except DifferentError as err:
            where = first_difference(modules, symbol) or _first_other_size(modules, symbol, lengths)
            return where or Diagnostic.of(f"{symbol} differs with the length: {err}")
    out = IRModule()
    add_functions(out, functions)
    return out


def merge_functions(functions: Sequence[BaseFunc], lengths: Numbers, name: str) -> BaseFunc:
    """Return the merged function for any length; the size of one of its parameters is the length variable itself.

    Raises:
        DifferentError: The functions differ in other fields than integers, or no size is the length itself.
    """
    graphs = Graphs(functions)
    differing = graphs.differing()
    if not differing:
        return functions[0]
    sizes = [numbers for numbers in _sizes(functions) if len(set(numbers)) > 1]
    for base in sorted(sizes, key=lambda numbers: numbers != lengths):
        length = tirx.Var(name, "int64")
        forms = {numbers: form.of(length) for numbers in differing if (form := form_of(numbers, base))}
        if len(forms) == len(differing):
            return _with_whole_sizes(graphs.merged(forms))
    odd = " or ".join(map(str, min(differing)))
    raise DifferentError(
        f"a size is {odd} for a length of {' or '.join(map(str, lengths))}, which is no linear function of the length"
    )


def _with_whole_sizes(func: BaseFunc) -> BaseFunc:
    """Return a copy of a kernel whose parameter sizes are length variables without casts, which a call can bind."""
    if not isinstance(func, tirx.PrimFunc):
        return func
    new = {param: whole for param in func.params if (whole := _whole(param)) is not None}
    body = structural_map(func.body, [(Var, lambda var: new.get(var, var))])
    params = [new.get(param, param) for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, attrs=func.attrs)


def _whole(param: Var) -> Var | None:
    dims = dims_of(param.ty)
    if not any(isinstance(dim, tirx.Cast) for dim in dims):
        return None
    shape = [dim.value if isinstance(dim, tirx.Cast) else tirx.IntImm("int64", int(dim)) for dim in dims]
    ty = param.ty
    return tirx.decl_buffer(
        shape, str(ty.dtype), param.name, elem_offset=ty.elem_offset, offset_factor=1, layout=None
    )


def _sizes(functions: Sequence[BaseFunc]) -> list[Numbers]:
    """Return the sizes of all parameters, each as a tuple of its values in all functions."""
    shapes = [[int(dim) for param in func.params for dim in dims_of(param.ty)] for func in functions]
    return sorted(set(zip(*shapes, strict=True)))


def _first_other_size(modules: Sequence[IRModule], symbol: str, lengths: Numbers) -> Diagnostic | None:
    """Return a diagnostic of the first call with a result size that is no function of the length; None if none has."""
    for group in zip(*(_bindings(mod, symbol) for mod in modules), strict=False):
        for numbers in zip(*(map(int, dims_of(binding.var.ty)) for binding in group), strict=True):
            if len(set(numbers)) > 1 and form_of(numbers, lengths) is None:
                reason = "a size of its result does not follow from the length by one form"
                actual = f"{_listed(numbers)} for lengths of {_listed(lengths)}"
                return Diagnostic.of(reason, "such as (n + 1) // 2", actual, nodes=sources_of(group[0].value))
    return None


def _listed(numbers: Numbers) -> str:
    return ", ".join(map(str, numbers))


def _bindings(mod: IRModule, symbol: str) -> list[relax.Binding]:
    func = mod[symbol]
    return bindings_of(func) if isinstance(func, relax.Function) else []


def first_difference(modules: Sequence[IRModule], symbol: str = "main") -> Diagnostic | None:
    """Return a diagnostic of the first call that differs between the modules; None if there is none."""
    each = [_bindings(mod, symbol) for mod in modules]
    for group in zip(*each, strict=False):
        operators = {str(getattr(b.value, "op", type(b.value))) for b in group}
        kinds = {str(getattr(b.value, "attrs", None)) for b in group}
        if len(operators) > 1 or len(kinds) > 1:
            return Diagnostic.of("the graph differs with the length", nodes=sources_of(group[0].value))
        first, *others = [tensors_of(binding.value) for binding in group]
        if any(not equal_tensors(first, other) for other in others):
            return Diagnostic.of("a constant differs with the length", nodes=sources_of(group[0].value))
    if len({len(bindings) for bindings in each}) > 1:
        longest = max(each, key=len)
        extra = longest[min(map(len, each))]
        return Diagnostic.of("the graph differs with the length", nodes=sources_of(extra.value))
    return None
