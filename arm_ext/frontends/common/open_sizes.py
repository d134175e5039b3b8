# SPDX-License-Identifier: Apache-2.0
"""Refusal of tensors whose size depends on data, such as NonZero's result: their memory cannot be planned."""

from tvm import IRModule, relax
from tvm.ir import Var

from arm_ext.common.errors import ModelError
from relay_passes.ir.shapes import element_count
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of


def refuse_open_sizes(mod: IRModule) -> None:
    """Refuse a module with a tensor whose size depends on data.

    Raises:
        ModelError: There is one; the message names the first node that computes one, and those that feed it.
    """
    for _, func in sorted(relax_functions(mod), key=lambda named: str(named[0].name_hint) != "main"):
        for binding in bindings_of(func):
            ty = binding.var.ty
            for field in ty.fields if isinstance(ty, relax.TupleType) else [ty]:
                if isinstance(field, relax.TensorType) and element_count(field) is None:
                    raise _refused(func, binding)


def _refused(func: relax.Function, binding: relax.Binding) -> ModelError:
    names = ", ".join(sources_of(binding.value)) or str(binding.var.name)
    fed = ", ".join(f"'{name}'" for name in _fed_by(func, binding)) or "constants"
    return ModelError(
        f"node '{names}' gives a tensor whose size depends on the data, and a compiled model has static shapes: end "
        f"the model at what feeds the node ({fed}), and compute it and what follows in the program that calls the "
        "package; onnx.utils.extract_model cuts ONNX models"
    )


def _fed_by(func: relax.Function, binding: relax.Binding) -> list[str]:
    """Return the names of nodes and inputs whose values are read by the source nodes of a binding."""
    made = {each.var: each.value for each in bindings_of(func)}
    known = {*made, *func.params}  # a call's free variables include sizes, such as `range_len_0`
    own = set(sources_of(binding.value))
    waiting = [value for value in made.values() if own.intersection(sources_of(value))] or [binding.value]
    seen, names = set[Var](), dict[str, None]()
    while waiting:
        for var in known.intersection(relax.analysis.free_vars(waiting.pop())):
            others = sources_of(made[var]) if var in made else (str(var.name),)
            if others and not own.intersection(others):
                names.update(dict.fromkeys(others))
            elif not others and var not in seen:
                seen.add(var)
                waiting.append(made[var])
    return sorted(names)
