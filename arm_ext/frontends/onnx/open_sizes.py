# SPDX-License-Identifier: Apache-2.0
"""Refusal of ONNX models in which data decides a size, with instructions for splitting the model in two.

    b = Cast(x); n = NonZero(b); y = Gather(x, n)    →    first.onnx: x → b;  NonZero;  second.onnx: n, x → y

Expansions and TVM's importer fail at nodes that read such a tensor, and name these. So the node that decides the size
is found first, by the shapes that onnx infers. A size of which a model declares a wrong number is found in the Relax
module, by `common.open_sizes`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx
from onnx import GraphProto, ModelProto, NodeProto

from arm_ext.common.errors import ModelError
from arm_ext.common.text import counted
from arm_ext.frontends.onnx.converters import is_custom
from arm_ext.frontends.onnx.expansion import domain_of, opset_of
from arm_ext.frontends.onnx.partition import reads
from arm_ext.frontends.onnx.subgraph_nodes import name_of, nodes_inside

# Schemas' names of inputs that TVM's importer requires to be constants: axes, and inputs that decide a shape.
_CONSTANTS = frozenset(
    {"axes", "axis", "ends", "k", "output_shape", "pads", "repeats", "scales", "shape", "size", "sizes"}
    | {"split", "starts", "steps"}
)

_DECIDING = {
    "Compress": ("condition",),
    "ConstantOfShape": ("input",),
    "NonMaxSuppression": ("boxes", "scores"),
    "NonZero": ("X",),
    "OneHot": ("depth",),
    "Range": ("start", "limit", "delta"),
    "TopK": ("K",),
    "Unique": ("X",),
}
"""Operator whose inputs' values decide the size of its result, whatever shapes the model declares → these inputs."""

FIXED = "arm_ext.value"
"""Key of the metadata of an initialiser that stands for an input of the model's file."""

_SELECTIONS = ("Compress", "NonZero")
"""Operators that boolean indexing is exported as."""

_ALWAYS = (*_SELECTIONS, "NonMaxSuppression", "Unique")
"""Operators whose data decides the size of the result in every model."""

RANDOM_OPERATORS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
"""Operators that draw random numbers, whose values `--random` decides."""

_SHOWN = 40
"""Most values or options in a list of a message. Commands for a speech model have fewer, and so are complete."""

_SHOWN_NODES = 3
"""Most nodes that are listed beside the first."""

_BOUND = 512
"""Bound of the length in the example."""

_SIZE = 64
"""Length in an example for one length."""

_FEW = 16
"""Most elements of an input whose numbers a user may know, as by `--value`."""


def constants_read(node: NodeProto, opset: int) -> list[str]:
    """Return the inputs of a standard node that TVM's importer requires to be constants."""
    return _inputs_named(node, opset, _CONSTANTS)


def _inputs_named(node: NodeProto, opset: int, names: Collection[str]) -> list[str]:
    formals = onnx.defs.get_schema(node.op_type, opset).inputs
    return [
        actual for formal, actual in zip(formals, node.input, strict=False) if formal.name in names and actual
    ]


@dataclass(frozen=True)
class SourceNode:
    """A node as it is in the model's file, before expansion.

    Attributes:
        operator: The operator.
        name: Name of the node, as messages show it.
        inputs: Values that the node reads, those of its subgraphs among them.
        outputs: Values that it computes.
        deciding: Inputs whose values decide the sizes of its outputs.
    """

    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    deciding: tuple[str, ...]

    @classmethod
    def of(cls, node: NodeProto, opset: int) -> "SourceNode":
        """Return the record of an ONNX node."""
        deciding: list[str] = []
        if not domain_of(node) and onnx.defs.has(node.op_type, opset) and not is_custom(node):
            deciding = _inputs_named(node, opset, _DECIDING.get(node.op_type, _CONSTANTS))
        outputs = filter(None, node.output)
        return cls(node.op_type, name_of(node), tuple(reads([node])), tuple(outputs), tuple(deciding))


@dataclass(frozen=True)
class SourceGraph:
    """The graph of a model before its operators are expanded, whose nodes and values a user knows by name.

    Attributes:
        nodes: The nodes, in topological order.
        inner: Nodes of branches and loops.
        inputs: Inputs that the file has, those that `--value` replaced among them.
        outputs: Outputs.
        constants: Initialisers.
    """

    nodes: tuple[SourceNode, ...]
    inner: tuple[SourceNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: frozenset[str]

    @classmethod
    def of(cls, model: ModelProto) -> "SourceGraph":
        """Return the record of an ONNX model's graph."""
        graph, opset = model.graph, opset_of(model)
        replaced = [t.name for t in graph.initializer if any(p.key == FIXED for p in t.metadata_props)]
        constants = frozenset(tensor.name for tensor in graph.initializer).difference(replaced)
        given = [value.name for value in graph.input if value.name not in constants]
        return cls(
            tuple(SourceNode.of(node, opset) for node in graph.node),
            tuple(SourceNode.of(inner, opset) for node in graph.node for inner in nodes_inside(node)),
            tuple(dict.fromkeys((*given, *replaced))),
            tuple(value.name for value in graph.output),
            constants,
        )

    @cached_property
    def producers(self) -> Mapping[str, SourceNode]:
        """Value → the node that computes it."""
        return {name: node for node in self.nodes for name in node.outputs}

    @cached_property
    def fixed(self) -> frozenset[str]:
        """Names of values that are computed from initialisers only."""
        fixed = set(self.constants)
        for node in self.nodes:
            if fixed.issuperset(node.inputs):
                fixed.update(node.outputs)
        return frozenset(fixed)

    def needed(self, values: Iterable[str], goes_on: Callable[[str], bool] = lambda name: True) -> set[str]:
        """Return the given values and all values that they depend on.

        Do not go beyond a value for which `goes_on` is false.
        """
        waiting, found = list(values), set[str]()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                if name in self.producers and goes_on(name):
                    waiting += self.producers[name].inputs
        return found

    def deciding(self, value: str) -> tuple[str, ...]:
        """Return the inputs of a value's producer that decide the value's size."""
        return self.producers[value].deciding if value in self.producers else ()

    def following(self, values: Iterable[str]) -> set[str]:
        """Return the given values and all values that depend on them."""
        found = set(values)
        for node in self.nodes:
            if not found.isdisjoint(node.inputs):
                found.update(node.outputs)
        return found

    def in_order(self, values: Collection[str]) -> list[str]:
        """Return values in the order in which they are computed, inputs first."""
        every = dict.fromkeys((*self.inputs, *(name for node in self.nodes for name in node.outputs)))
        return [name for name in every if name in values]


class _Shapes:
    """Shapes, types and constants of a graph's values, as far as shape inference knows them.

    Attributes:
        constants: Constants, what follows from shapes among them.
    """

    def __init__(self, graph: GraphProto) -> None:
        held = (*graph.input, *graph.value_info, *graph.output)
        self._types = {value.name: value.type.tensor_type for value in held}
        tensors = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                tensors.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
        self.constants = {name: list(tensor.dims) for name, tensor in tensors.items()}

    def dims(self, name: str) -> list[int | None]:
        """Return a value's dimensions, with None for each unknown one; [None] if the rank is unknown."""
        if name in self.constants:
            return [int(size) for size in self.constants[name]]
        ty = self._types.get(name)
        if ty is None or not ty.HasField("shape"):
            return [None]
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in ty.shape.dim]

    def is_few(self, name: str) -> bool:
        """Whether a value is a scalar or vector of at most _FEW integers or booleans."""
        dims = self.dims(name)
        kind = self._types[name].elem_type if name in self._types else onnx.TensorProto.FLOAT
        is_integer = onnx.helper.tensor_dtype_to_np_dtype(kind).kind in "biu"
        return is_integer and len(dims) < 2 and all(n is not None and n <= _FEW for n in dims)


def refuse_data_sizes(source: SourceGraph, graph: GraphProto, nodes: Iterable[NodeProto], model: str) -> None:
    """Refuse a model with tensors whose size depends on data.

    Args:
        source: The model's graph as its file has it.
        graph: The graph, or a part of it, with the shapes of its values as far as these can be inferred.
        nodes: Nodes of `graph` to look at: those before run-time control flow, behind which sizes may be unknown yet.
        model: Name of the model.

    Raises:
        ModelError: The message names the first node whose output's size the data decides, and how to split the model.
    """
    shapes = _Shapes(graph)
    found = _open_nodes(source, shapes, {name: node.op_type for node in nodes for name in node.output})
    if found:
        raise ModelError("\n".join(_lines(found, source, shapes, model)))


def _open_nodes(source: SourceGraph, shapes: _Shapes, made: Mapping[str, str]) -> list[SourceNode]:
    """Return the first nodes with an unknown size on each path to the outputs: the sizes of their inputs are all known.

    `made` maps values to the operators that compute them now, which may have replaced those of the source.
    """
    needed, unknown = source.needed(source.outputs), set[str]()
    needed.update(name for node in source.inner for name in node.outputs)
    found = []
    for node in (*source.nodes, *source.inner):
        if made.keys().isdisjoint(node.outputs):
            continue
        is_open = any(None in shapes.dims(name) for name in node.outputs)
        # The node's inputs depend on a size that onnx cannot infer, and that may become known later.
        if any(name in unknown or None in shapes.dims(name) for name in node.inputs):
            unknown.update(node.outputs)
            continue
        is_decided = not shapes.constants.keys() >= set(node.deciding)
        is_unchanged = any(made.get(name) == node.operator for name in node.outputs)
        if is_decided and (is_open or (is_unchanged and node.operator in _DECIDING)):
            found += [] if needed.isdisjoint(node.outputs) else [node]
            is_open = True
        if is_open:
            unknown.update(node.outputs)
    return found


@dataclass(frozen=True)
class Split:
    """A model in two parts, between which a program computes some nodes.

    Attributes:
        inputs: Inputs of the first part.
        passed: Outputs of the first part: what the nodes and the second part read.
        read: What the nodes read.
        begins: Outputs of the nodes, which are inputs of the second part.
        crossing: Further inputs of the second part.
        results: Outputs of the second part.
        again: Inputs of the second part that decide sizes there, too.
        is_random: Whether the second part draws numbers.
    """

    inputs: list[str]
    passed: list[str]
    read: list[str]
    begins: list[str]
    crossing: list[str]
    results: list[str]
    again: list[str]
    is_random: bool

    @classmethod
    def at(cls, nodes: Sequence[SourceNode], source: SourceGraph, shapes: _Shapes) -> "Split":
        """Split a graph into a part before and a part after `nodes`; no path between two of these has other nodes."""
        made = {name for node in nodes for name in node.outputs}
        inside = {node.name for node in nodes}
        outside = {name for node in source.nodes if node.name not in inside for name in node.inputs}
        begins = made.intersection((*outside, *source.outputs)).difference(shapes.constants)
        later = source.following(begins) - (made - begins)
        results = later.intersection(source.outputs).difference(begins)
        # Constants that follow from shapes count as later values: the second part computes them again.
        within = {*later, *shapes.constants}.difference(begins, source.fixed)
        second = source.needed(results, within.__contains__)
        computed = later | source.fixed | (shapes.constants.keys() & source.producers.keys())
        crossing = second - computed
        read = {name for node in nodes for name in node.inputs}.difference(
            made, source.fixed, shapes.constants
        )
        kept = {name for name in source.outputs if name not in later}
        passed = (crossing | read | kept).difference(source.inputs, source.fixed)
        inputs = source.needed(passed).intersection(source.inputs)
        deciding = {name for value in second & within for name in source.deciding(value)}
        drawn = {name for node in source.nodes if node.operator in RANDOM_OPERATORS for name in node.outputs}
        return cls(
            inputs=source.in_order(inputs),
            passed=source.in_order(passed),
            read=source.in_order(read),
            begins=source.in_order(begins),
            crossing=source.in_order(crossing),
            results=source.in_order(results),
            again=source.in_order(crossing & deciding),
            is_random=bool(drawn & second & within),
        )


def _lines(nodes: Sequence[SourceNode], source: SourceGraph, shapes: _Shapes, model: str) -> Iterator[str]:
    first, *others = [f"{node.operator} node '{node.name}'" for node in nodes]
    also = f", as does {_listed(others, ', ', _SHOWN_NODES)}" if others else ""
    by = [name for name in nodes[0].deciding if name not in shapes.constants]
    values = "value" if len(by) == 1 else "values"
    yield (
        f"{first} gives a tensor whose size depends on the data (the {values} of {_quoted(by)}){also}. A package's "
        "sizes are known before it runs."
    )
    advice = list(_advice(nodes, by, source, shapes))
    yield from advice
    if nodes[0] in source.inner:
        yield "The node is inside a branch or a loop: move it out, or let your program compute that."
        return
    between = _with_later(nodes, source, shapes)
    how, *parts = _parts(Split.at(between, source, shapes), shapes, model, nodes, between)
    if len(between) > len(nodes):
        on = "it" if len(nodes) == 1 else "these"
        more = sum(node.operator in _ALWAYS for node in between) - len(nodes)
        yield f"{counted(more, 'more such node')} {'depends' if more == 1 else 'depend'} on {on}."
    yield f"Otherwise {how[0].lower()}{how[1:]}" if advice else how
    yield from parts


def _with_later(nodes: Sequence[SourceNode], source: SourceGraph, shapes: _Shapes) -> list[SourceNode]:
    """Return size-deciding nodes, together with all nodes that follow from them up to the last node of `_ALWAYS`.

    Each later node of `_ALWAYS` would need another split. The nodes end where all values that later nodes read have
    known sizes, and are no shapes; if that is nowhere, `nodes` are returned alone.
    """
    begun = source.following(name for node in nodes for name in node.outputs)
    needed, named = source.needed(source.outputs), {node.name for node in nodes}
    # Value → index of the last node that reads the value.
    last = {name: index for index, node in enumerate(source.nodes) for name in node.inputs}
    last |= dict.fromkeys(source.outputs, len(source.nodes))
    indices = [index for index, node in enumerate(source.nodes) if not begun.isdisjoint(node.outputs)]
    later = [
        index
        for index in indices
        if (node := source.nodes[index]).operator in _ALWAYS
        and node.name not in named
        and not needed.isdisjoint(node.outputs)
    ]
    unfit: set[str] = set()  # values that are read later and cannot begin a part
    for index in indices if later else ():
        outputs = source.nodes[index].outputs
        unfit.update(name for name in outputs if None in shapes.dims(name) or shapes.is_few(name))
        unfit = {name for name in unfit if last.get(name, -1) > index}
        if index >= later[-1] and not unfit:
            inside = named.union(source.nodes[each].name for each in indices if each <= index)
            return _with_constants([node for node in source.nodes if node.name in inside], source, shapes)
    return [*nodes]


def _with_constants(nodes: Sequence[SourceNode], source: SourceGraph, shapes: _Shapes) -> list[SourceNode]:
    """Return nodes, together with the nodes that compute constants for them from shapes."""
    found = {node.name for node in nodes}
    waiting = [name for node in nodes for name in node.inputs]
    while waiting:
        name = waiting.pop()
        if name in shapes.constants and name in source.producers:
            node = source.producers[name]
            if node.name not in found:
                found.add(node.name)
                waiting += node.inputs
    return [node for node in source.nodes if node.name in found]


def _advice(
    nodes: Sequence[SourceNode], by: Sequence[str], source: SourceGraph, shapes: _Shapes
) -> Iterator[str]:
    """Yield advice on how to change or compile the model so that its sizes are fixed."""
    given = source.needed(by).intersection(source.inputs)
    if given and all(map(shapes.is_few, given)):
        names = _quoted(source.in_order(given))
        yield f"If {names} is the same at each run, make it a constant, by --value NAME=NUMBERS."
    if any(node.operator in _SELECTIONS for node in nodes):
        yield "Export x[mask] = f(x[mask]) as x = torch.where(mask, f(x), x), whose size is that of x."


def _parts(
    split: Split, shapes: _Shapes, model: str, nodes: Sequence[SourceNode], between: Sequence[SourceNode]
) -> Iterator[str]:
    """Yield instructions for splitting the model in two parts, as lines of a message.

    Args:
        split: The two parts.
        shapes: Shapes of the values.
        model: Name of the model.
        nodes: The nodes that the message names.
        between: The nodes between the parts.
    """
    node = "the node" if len(nodes) == 1 else "these nodes"
    is_file = len(between) > len(nodes)
    if is_file:
        node = f"all from {node} to {between[-1].operator} node '{between[-1].name}'"
    if split.passed and split.results:
        yield f"Split the model, and let your program compute {node} between the two parts:"
    elif split.passed or split.results:
        yield f"Cut {node} off the model, for your program to compute:"
    else:
        yield f"Let your program compute {node}, which is all of the model."
    if split.passed:
        yield _extraction(model, "first", split.inputs, split.passed)
    if is_file:
        yield _extraction(model, "between", split.read, split.begins)
    if split.results:
        yield _extraction(model, "second", [*split.begins, *split.crossing], split.results)
        yield from _compilation(split, shapes, _file(model, "second"))


def _file(model: str, part: str) -> str:
    """Return the file name for a part of a model, different from the file name of a model that is a part itself."""
    return f"{model}_{part}.onnx" if model.startswith(("first", "second")) else f"{part}.onnx"


def _extraction(model: str, part: str, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    names = (f"[{_quoted(each)}]" for each in (inputs, outputs))
    return f"  onnx.utils.extract_model('{model}.onnx', '{_file(model, part)}', {', '.join(names)})"


def _compilation(split: Split, shapes: _Shapes, file: str) -> Iterator[str]:
    """Yield how to compile the second part: for any length, or for one length if its inputs' values decide sizes."""
    known = [(name, ["" if n is None else str(n) for n in shapes.dims(name)]) for name in split.begins]
    opened = [dims for _, dims in known if "" in dims]
    is_bounded = all(dims.count("") == 1 for dims in opened) and not split.again
    size = f"n<={_BOUND}" if is_bounded else str(_SIZE)
    options = [f"--shape '{name}={','.join(n or size for n in dims)}'" for name, dims in known]
    for name in split.crossing:
        if name in split.again or name in shapes.constants:
            options.append(f"--value '{name}=…'")
        elif dims := shapes.dims(name):
            options.append(f"--shape '{name}={','.join(map(str, dims))}'")
    if split.is_random:
        options.append(f"--random {'zeros' if is_bounded and opened else 'seed=0'}")
    yield f"  `arm-ext compile {file} {_listed(options, ' ')}`"
    if split.again:
        yield f"That is for one length, since {_quoted(split.again)} decides sizes in the second part, too."
    elif is_bounded and opened:
        same = ", the same in all places; where sizes differ, give numbers" if len(opened) > 1 else ""
        yield f"n is any length up to {_BOUND}{same}; {{64,128}} in its place are these two, with faster code."


def _quoted(names: Iterable[str]) -> str:
    return _listed([f"'{name}'" for name in names], ", ")


def _listed(texts: Sequence[str], separator: str, most: int = _SHOWN) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{separator.join(texts[:most])}{more}"
