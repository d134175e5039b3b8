# SPDX-License-Identifier: Apache-2.0
"""States of a model: inputs and outputs that come last, in the same order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.ir import TupleGetItem, Var

from arm_ext.common.errors import UsageError
from arm_ext.common.npz import read_npz
from arm_ext.frontends.common.imported import ImportedModel, Reference, State, TensorSpec
from relay_passes.ir.upstream import run_upstream

Array = npt.NDArray[Any]
_T = TypeVar("_T")


def with_states(
    model: ImportedModel, pairs: Mapping[str, str], initial: Mapping[str, Array] | None = None
) -> ImportedModel:
    """Return the model with its present states, followed by the states that `pairs` adds.

    Args:
        model: The imported model.
        pairs: Name of an input → the output that is its next value. States that the model has already may be
            named again.
        initial: Name of such an input → its first value; by default the model's own initial value, or zeros
            if it has none.

    Raises:
        UsageError: A name is of no input or output, two states have one output, or the two of a state differ.
    """
    known = {state.input: state for state in model.states}
    # The model's existing states are checked again, because pre- and post-processing may have changed their
    # tensors.
    for name, output in ({state.input: state.output for state in model.states} | dict(pairs)).items():
        _check_pair(model, name, output, known)
    own = [state for state in model.states if state.input not in pairs]
    named = [known.get(name) or State(name, output, _zeros(model, name)) for name, output in pairs.items()]
    states = tuple(_begun(model, state, initial or {}) for state in (*own, *named))
    for output, count in Counter(state.output for state in states).items():
        if count > 1:
            raise UsageError(
                f"--state: output {output} is the next value of {count} inputs; it can be the next value of only one"
            )
    if unknown := sorted(set(initial or {}) - {state.input for state in states}):
        names = ", ".join(state.input for state in states) or "none; name them by --state"
        raise UsageError(f"--state-init: {', '.join(unknown)} is not a state. The states are: {names}")
    return _ordered(model, states)


def read_initial(given: Mapping[str, Array] | Path | str | None) -> Mapping[str, Array]:
    """Return initial values by name, from a mapping or an .npz file.

    Raises:
        UsageError: The file is no such .npz file.
    """
    if given is None:
        return {}
    if not isinstance(given, str | Path):
        return given
    return read_npz(Path(given), "an array a state, named as the input")


def _check_pair(model: ImportedModel, name: str, output: str, known: Mapping[str, State]) -> None:
    before, after = (
        _found(kind, given, specs)
        for kind, given, specs in (("input", name, model.inputs), ("output", output, model.outputs))
    )
    if name in known and known[name].output != output:
        raise UsageError(f"--state {name}={output}: the model's next value of {name} is {known[name].output}")
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        raise UsageError(
            f"--state {name}={output}: input {before.describe()} and output {after.describe()} differ; a state's next "
            "value has its shape and type"
        )


def _found(kind: str, name: str, specs: Sequence[TensorSpec]) -> TensorSpec:
    for spec in specs:
        if spec.name == name:
            return spec
    names = ", ".join(spec.describe() for spec in specs)
    raise UsageError(f"--state: the model has no {kind} {name}. The {kind}s are: {names}")


def _zeros(model: ImportedModel, name: str) -> Array:
    spec = _found("input", name, model.inputs)
    return np.zeros(spec.shape, spec.dtype)


def _begun(model: ImportedModel, state: State, initial: Mapping[str, Array]) -> State:
    if state.input not in initial:
        return state
    if fault := _found("input", state.input, model.inputs).check(initial[state.input]):
        raise UsageError(f"--state-init: {state.input}: {fault}")
    return replace(state, initial=initial[state.input])


def _ordered(model: ImportedModel, states: tuple[State, ...]) -> ImportedModel:
    inputs = _order([spec.name for spec in model.inputs], [state.input for state in states])
    outputs = _order([spec.name for spec in model.outputs], [state.output for state in states])
    moved = replace(model, states=states)
    if inputs == sorted(inputs) and outputs == sorted(outputs):
        return moved
    return replace(
        moved,
        mod=_permuted(model.mod, inputs, outputs),
        inputs=tuple(_taken(model.inputs, inputs)),
        outputs=tuple(_taken(model.outputs, outputs)),
        reference=partial(_reference, model.reference, inputs, outputs),
        float_reference=model.float_reference and partial(_reference, model.float_reference, inputs, outputs),
    )


def _order(names: Sequence[str], last: Sequence[str]) -> list[int]:
    """Return the permutation that moves `last` to the end, in their order; the other names keep their order."""
    return [k for k, name in enumerate(names) if name not in last] + [names.index(name) for name in last]


def _taken(values: Sequence[_T], order: Sequence[int]) -> list[_T]:
    return [values[k] for k in order]


def _reference(
    source: Reference, inputs: list[int], outputs: list[int], values: list[Array]
) -> tuple[list[Array], str]:
    """Run the source's own runtime.

    Its inputs and outputs are in the model's order, before states were moved to the end.
    """
    results, runtime = source(_taken(values, [inputs.index(k) for k in range(len(inputs))]))
    return _taken(results, outputs) if results else [], runtime


def _permuted(mod: tvm.IRModule, inputs: Sequence[int], outputs: Sequence[int]) -> tvm.IRModule:
    main = mod["main"]
    blocks, returned = list(main.body.blocks), main.body.body
    if len(outputs) > 1:
        fields = relax.Tuple([TupleGetItem(returned, k) for k in outputs])
        returned = Var("outputs", relax.TupleType([field.ty for field in fields.fields]))
        blocks.append(relax.DataflowBlock([relax.VarBinding(returned, fields)]))
    params, body = _taken(main.params, inputs), relax.SeqExpr(blocks, returned)
    out = mod.clone()
    out.update_func(
        mod.get_global_var("main"), relax.Function(params, body, returned.ty, main.is_pure, main.attrs)
    )
    for upstream in (relax.transform.Normalize(), relax.transform.CanonicalizeBindings()):
        out = run_upstream(out, upstream)
    return out
