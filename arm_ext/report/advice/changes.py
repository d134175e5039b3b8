# SPDX-License-Identifier: Apache-2.0
"""Changes of an imported model of any format; their gain is measured by building the changed model.

hard_swish: x · sigmoid(x)    →    x · clip(x / 6 + ½, 0, 1)
channels_last_ends: input [N, C, H, W] → f, f → output    →    input [N, H, W, C] → transpose → f, and the reverse
channels_last_reshapes: [N, C, H, W] → reshape → f    →    transpose to [N, H, W, C] → reshape → f
without_nodes: f(x), of as many elements as x    →    x

The first changes the results, so that the model must be trained again. Kernels of convolutions take channels last, so
that a transpose to or from channels first at an end of the model goes away in the package; the second change keeps the
results. So does the third if f is a product with constant weights, whose rows are then permuted; else the model must be
trained again. The fourth gives other results and tells what an operator costs.

What has the place of a call keeps the names of the source nodes. See also `padded_channels`, `nearest_operators` and
`smaller_sizes`.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Concatenate, ParamSpec

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call, Expr, Op, TupleGetItem, Var
from tvm.relax.analysis import free_vars
from tvm.relax.dpl import is_op, wildcard
from tvm_ffi import structural_map

from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.report.calls import CONVERSIONS
from relay_passes.ir.calls import SHAPE_ONLY, BoundCall, name_of, nodes_of
from relay_passes.ir.main_signature import returned
from relay_passes.ir.shapes import shape_of, static_shape
from relay_passes.ir.sources import Names, bindings_of, map_calls, sources_of, union, with_source
from relay_passes.ir.upstream import run_upstream
from relay_passes.layout.constants import Static, static_call, static_of
from relay_passes.layout.nhwc import axis_roles
from relay_passes.rewriter.engine import apply_rule
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules import recognize_sigmoid
from relay_passes.rules.common.linear_calls import ANCHORS

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Permutations of axes from [N, C, H, W] to [N, H, W, C], and back."""

_P = ParamSpec("_P")

_IMAGE = ("N", "C", "S", "S")  # roles of the axes of a channels-first image
_MATRIX = 2
_FLATTENS = ("relax.reshape", "relax.flatten", "relax.nn.batch_flatten")
_CONVERTS = ("relax.quantize", "relax.dequantize")


@dataclass(frozen=True)
class Changed:
    """A changed model, with a description of the change.

    Attributes:
        model: The changed model. `reference` is the unchanged model's.
        sources: Names of the source nodes that differ from the original model's.
        what: Description of the change, such as "24 → 32 channels".
        inputs: Input name → the permutation of axes that makes the changed model's input of the original one's.
        outputs: Output name → the permutation of axes that makes the original model's output of the changed one's.
        comparable: Whether the outputs stand for those of the original model, so that their error means something.
        remake: Makes the same change of the model as it is imported for other shapes; None where it cannot.
    """

    model: ImportedModel
    sources: tuple[str, ...]
    what: str
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    comparable: bool = True
    remake: "Callable[[ImportedModel], Changed | None]" = lambda model: None

    def applied(self, model: ImportedModel) -> ImportedModel:
        """Return another import of the model with the change, or unchanged if the change is not possible there."""
        made = self.remake(model)
        return model if made is None else made.model

    def after(self, first: "Changed") -> "Changed":
        """Return the change `first` followed by this change, which was made of `first.model`.

        Its description is that of `first`.
        """
        return replace(
            first,
            model=self.model,
            remake=lambda model: self.remake(first.applied(model)) or first.remake(model),
        )


def remade(
    change: Callable[Concatenate[ImportedModel, _P], Changed | None],
) -> Callable[Concatenate[ImportedModel, _P], Changed | None]:
    """Return a function that makes a change which can be repeated on other imports of the same model."""

    @wraps(change)
    def made(model: ImportedModel, /, *args: _P.args, **kwargs: _P.kwargs) -> Changed | None:
        found = change(model, *args, **kwargs)
        return found and replace(found, remake=lambda other: made(other, *args, **kwargs))

    return made


def with_module(model: ImportedModel, mod: tvm.IRModule) -> ImportedModel:
    """Return a model with another module that has the same inputs and outputs, for CPU and NPU alike."""
    return replace(model, mod=mod, for_npu=None)


def with_main(model: ImportedModel, main: relax.Function) -> ImportedModel:
    """Return a model with another `main`; nested calls are allowed, and dead code is removed."""
    mod = model.mod.clone()
    mod.update_func(mod.get_global_var("main"), main)
    mod = run_upstream(mod, relax.transform.Normalize())
    return with_module(model, run_upstream(mod, relax.transform.DeadCodeElimination()))


_x = wildcard()
_HARD_SWISH = Rule(
    name="silu_to_hard_swish",
    pattern=is_op("relax.multiply")(_x, is_op("relax.sigmoid")(_x)) | is_op("relax.nn.silu")(_x),
    parts={"x": _x},
    check=lambda match: match,
    rewrite=lambda match: _hard_swish(match),
)


def _hard_swish(match: Match) -> Expr:
    x = match.operands["x"]
    sixth, half = (relax.const(number, str(x.ty.dtype)) for number in (1 / 6, 0.5))
    return relax.op.multiply(x, relax.op.clip(relax.op.add(relax.op.multiply(x, sixth), half), 0, 1))


@remade
def hard_swish(model: ImportedModel) -> Changed | None:
    """Return the model with each SiLU replaced by hard-swish; None if it has none."""
    # JAX exports a sigmoid as its formula.
    mod, found = apply_rule(apply_rule(model.mod, recognize_sigmoid.RULE)[0], _HARD_SWISH)
    if not found.applied:
        return None
    what = f"{len(found.applied)} SiLU → hard-swish"
    return Changed(with_module(model, mod), union(found.applied), what)


@remade
def channels_last_ends(model: ImportedModel) -> Changed | None:
    """Return the model with channels last at its inputs and outputs; None if none of them is a channels-first image."""
    main, roles = model.mod["main"], axis_roles(model.mod["main"])
    params = dict(zip((spec.name for spec in model.inputs), main.params, strict=True))
    results = dict(zip((spec.name for spec in model.outputs), returned(model.mod), strict=True))
    inputs = {name: var for name, var in params.items() if roles.get(var) == _IMAGE}
    outputs = {name: var for name, var in results.items() if roles.get(var) == _IMAGE}
    if len(main.body.blocks) != 1 or not (inputs or outputs):
        return None
    readers = [b for b in bindings_of(main) if not set(inputs.values()).isdisjoint(free_vars(b.value))]
    changed = with_main(model, _with_last_ends(main, set(inputs.values()), results, outputs))
    return Changed(
        replace(changed, inputs=_specs(model.inputs, inputs), outputs=_specs(model.outputs, outputs)),
        union(sources_of(binding.value) for binding in readers),
        f"channels last at {', '.join((*inputs, *outputs))}",
        dict.fromkeys(inputs, TO_LAST),
        dict.fromkeys(outputs, TO_FIRST),
    )


def _with_last_ends(
    main: relax.Function, params: Collection[Var], results: Mapping[str, Var], moved: Collection[str]
) -> relax.Function:
    """Return a function with some parameters and results in channels-last layout.

    Args:
        main: The function, of one dataflow block.
        params: The parameters.
        results: Name of a result → its variable, for all results.
        moved: Names of the results to be with channels last.
    """
    names = {binding.var: sources_of(binding.value) for binding in bindings_of(main)}
    for binding in reversed(
        bindings_of(main)
    ):  # a transpose of a parameter gets the source names of its first reader
        names |= dict.fromkeys(set(params).intersection(free_vars(binding.value)), sources_of(binding.value))
    given = {var: Var(var.name, _moved(var, TO_LAST)) for var in main.params if var in params}
    inside = {var: relax.DataflowVar(f"{var.name}_channels_first", var.ty) for var in given}
    body = structural_map(main.body, [(Var, lambda var: inside.get(var, var))])
    first = [_transposed(inside[var], given[var], TO_FIRST, names[var]) for var in given]
    bindings = [*first, *body.blocks[0].bindings]
    result: Var = body.body
    if moved:
        values = {name: inside.get(var, var) for name, var in results.items()}
        for name in moved:
            var = values[name]
            values[name] = Var(f"{var.name}_last", _moved(var, TO_LAST))
            bindings.append(_transposed(values[name], var, TO_LAST, names[results[name]]))
        result = Var("values", relax.TupleType([value.ty for value in values.values()]))
        bindings.append(relax.VarBinding(result, relax.Tuple(list(values.values()))))
        if isinstance(main.ret_ty, relax.TensorType):
            (result,) = values.values()
    new = relax.SeqExpr([relax.DataflowBlock(bindings)], result)
    return relax.Function(
        [given.get(var, var) for var in main.params], new, result.ty, main.is_pure, main.attrs
    )


def _transposed(var: Var, of: Var, order: tuple[int, ...], names: Names) -> relax.VarBinding:
    return relax.VarBinding(var, with_source(relax.op.permute_dims(of, order), names))


def _moved(var: Var, order: tuple[int, ...]) -> relax.TensorType:
    return relax.TensorType([shape_of(var)[axis] for axis in order], str(var.ty.dtype))


def _specs(specs: tuple[TensorSpec, ...], moved: Collection[str]) -> tuple[TensorSpec, ...]:
    return tuple(
        replace(spec, shape=tuple(spec.shape[axis] for axis in TO_LAST)) if spec.name in moved else spec
        for spec in specs
    )


@remade
def channels_last_reshapes(model: ImportedModel, names: Collection[str]) -> Changed | None:
    """Return the model with some reshapes applied to channels-last data; None if no reshape can be changed.

    Args:
        model: The model.
        names: Names of source nodes; those that do not flatten an image with channels first are left as they are.
    """
    graph = ValueGraph(model)
    roles = axis_roles(graph.main)
    new: dict[Var, Call] = {}
    comparable = True
    for node in graph.nodes:
        sources = sources_of(node.call)
        if node.name not in _FLATTENS or not sources or not set(sources) <= set(names):
            continue
        image = node.operands[0]
        if roles.get(image) != _IMAGE:
            continue
        last = with_source(relax.op.permute_dims(image, TO_LAST), sources)
        new[node.var] = with_source(relax.op.reshape(last, shape_of(node.var)), sources)
        product = graph.with_permuted_rows(node.var, shape_of(image))
        comparable = comparable and product is not None
        new |= product or {}
    if not new:
        return None
    changed = with_main(model, map_calls(graph.main, lambda var, call: new.get(var, call)))
    flattened = [sources_of(call) for call in new.values() if name_of(call) == "relax.reshape"]
    return Changed(changed, union(flattened), "reshape of channels last", comparable=comparable)


@remade
def without_nodes(model: ImportedModel, names: Collection[str]) -> Changed | None:
    """Return the model with the given nodes replaced by Identity, as far as that is possible; None if it is for none.

    A node can if it reads one tensor that is no constant, and gives one with as many elements of the same type. A
    product, a conversion from and to integers, and what costs nothing stay as they are.

    Args:
        model: The model.
        names: Names of source nodes.
    """
    graph = ValueGraph(model)
    new: dict[Var, Call] = {}
    for sources, group in graph.groups().items():
        if not set(sources) <= set(names) or any(model.nodes.get(name) in CONVERSIONS for name in sources):
            continue
        found = graph.passed_on(group)
        if found is not None:
            read, given = found
            new[given] = with_source(relax.op.reshape(read, shape_of(given)), sources)
    if not new:
        return None
    left_out = union(sources_of(call) for call in new.values())
    changed = with_main(model, with_values(graph.main, new))
    return Changed(changed, left_out, "left out", comparable=False)


def with_values(func: relax.Function, values: Mapping[Var, Expr]) -> relax.Function:
    """Return a function with some variables bound to other values."""

    def put(binding: relax.VarBinding) -> relax.VarBinding:
        return relax.VarBinding(binding.var, values.get(binding.var, binding.value), binding.span)

    return structural_map(func, [(relax.VarBinding, put)])


class ValueGraph:
    """The values of a model's `main`, with the call that computes each and the variables that read it."""

    def __init__(self, model: ImportedModel) -> None:
        self.main: relax.Function = model.mod["main"]
        self.nodes: list[BoundCall] = nodes_of(self.main)
        self._results = set(free_vars(self.main.body.body))
        self._bindings = bindings_of(self.main)

    @cached_property
    def _readers(self) -> dict[Var, list[Var]]:
        found: dict[Var, list[Var]] = {}
        for binding in self._bindings:
            for var in free_vars(binding.value):
                found.setdefault(var, []).append(binding.var)
        return found

    @cached_property
    def _statics(self) -> dict[Var, Static]:
        found: dict[Var, Static] = {}
        for node in self.nodes:
            if (static := static_call(node.call, found)) is not None:
                found[node.var] = static
        return found

    @cached_property
    def _fixed(self) -> set[Var]:
        """Values that are computed from constants only."""
        found: set[Var] = set()
        for binding in self._bindings:
            if found.issuperset(free_vars(binding.value)):
                found.add(binding.var)
        return found

    def groups(self) -> dict[Names, list[relax.VarBinding]]:
        """Return the bindings that compute each source node (or group of nodes), without conversions."""
        owners: dict[Var, Names] = {}
        found: dict[Names, list[relax.VarBinding]] = {}
        for binding in self._bindings:
            value = binding.value
            item = owners.get(value.tuple_value, ()) if isinstance(value, TupleGetItem) else ()
            names = sources_of(value) or item
            if names and name_of(value) not in _CONVERTS:
                owners[binding.var] = names
                found.setdefault(names, []).append(binding)
        return found

    def passed_on(self, group: list[relax.VarBinding]) -> tuple[Var, Var] | None:
        """Return the value that a group of bindings reads and the one that it computes; None if the group must stay."""
        calls = [binding.value for binding in group if isinstance(binding.value, Call)]
        if any(not isinstance(call.op, Op) or name_of(call) in ANCHORS for call in calls):
            return None
        ends = None if all(name_of(call) in SHAPE_ONLY for call in calls) else self.ends(group)
        if ends is None or math.prod(shape_of(ends[0])) != math.prod(shape_of(ends[1])):
            return None
        return ends

    def ends(self, group: list[relax.VarBinding]) -> tuple[Var, Var] | None:
        """Return the only value that a group of bindings reads, and the only one that it computes.

        None if there is not one of each; constants do not count.
        """
        own = {binding.var: None for binding in group}
        read = {var for binding in group for var in free_vars(binding.value)} - own.keys() - self._fixed
        given = [var for var in own if var in self._results or set(self._readers.get(var, ())) - own.keys()]
        given = [var for var in given if var not in self._fixed]
        if len(read) != 1 or len(given) != 1:
            return None
        (source,), (result,) = read, given
        static = static_shape(source) is not None and static_shape(result) is not None
        return (source, result) if static and str(source.ty.dtype) == str(result.ty.dtype) else None

    def with_permuted_rows(self, flattened: Var, shape: tuple[int, ...]) -> dict[Var, Call] | None:
        """Return the product that alone reads a flattened tensor, with permuted rows of weights; None if there is none.

        Args:
            flattened: The tensor.
            shape: Shape [N, C, H, W] of the tensor before it is flattened.
        """
        readers = self._readers.get(flattened, [])
        rows = math.prod(shape[1:])
        for node in self.nodes:
            if readers != [node.var] or flattened in self._results or node.name != "relax.matmul":
                continue
            static = static_of(node.operands[1], self._statics)
            if node.operands[0] != flattened or static is None or static.data.ndim != _MATRIX:
                continue
            if static.data.shape[0] != rows or (static.is_per_axis and static.axis == 0):
                continue
            order = np.arange(rows).reshape(shape[1:]).transpose(1, 2, 0).ravel()
            weights = replace(static, data=np.take(static.data, order, 0)).expr()
            if isinstance(weights, Call):
                weights = with_source(weights, static.nodes or sources_of(node.call))
            return {node.var: with_source(node.put([flattened, weights]), sources_of(node.call))}
        return None
