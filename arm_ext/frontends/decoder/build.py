# SPDX-License-Identifier: Apache-2.0
"""A decoder as a Relax function that appends tokens to its states and returns the logits after the last one.

    main(ids [rows], position [1], keys and values of each layer)    →    (logits [vocabulary], the next states)

Queries, keys and values are one product, and so are gate and up, if their weights have one format: the data is
quantised once for all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Expr, GlobalVar, TupleGetItem, Var

from arm_ext.frontends.common.imported import ImportedModel, State, TensorSpec
from arm_ext.frontends.common.naming import name_calls
from arm_ext.frontends.decoder.config import Array, Decoder, Matrix
from arm_ext.frontends.decoder.reference import reference
from arm_ext.frontends.graph import Graph
from schedules.kernels.attention.cached_f32 import CachedAttention, cached_attention_routine
from schedules.numerics.blocks import BlockWeights, gather_blocks_routine, linear_blocks_routine
from schedules.numerics.routine import Routine

R = relax.op

IDS, POSITION, LOGITS = "ids", "position", "logits"


Constants = dict[tuple[int, bool], tuple[Array, Expr]]
"""Address of an array, and whether the constant is transposed → the array, which keeps its address, and the constant.
Models for other numbers of tokens share the constants."""


def build(decoder: Decoder, rows: int, capacity: int, cache: str, constants: Constants) -> ImportedModel:
    """Return the model that appends `rows` tokens.

    Args:
        decoder: The decoder.
        rows: Number of tokens of a call.
        capacity: Positions of the caches.
        cache: Dtype of the caches, "float16" or "float32".
        constants: The constants of models that were built before; those of this one are added.
    """
    config = decoder.config
    layers = [_attention(decoder, layer, rows, capacity, cache) for layer in range(config.layers)]
    states = [State(POSITION, f"{POSITION}_next", np.zeros(1, np.int32))]
    for index, layer in enumerate(layers):
        for name, shape in (("keys", layer.keys), ("values", layer.values)):
            held = np.broadcast_to(np.zeros((), layer.cache), shape)
            states.append(State(f"{name}_{index}", f"{name}_{index}_next", held))
    emitter = _Emitter(decoder, layers, capacity, constants)
    mod = emitter.module(rows, [(s.input, s.initial.shape, str(s.initial.dtype)) for s in states])
    inputs = [TensorSpec(IDS, (rows,), "int32")]
    outputs = [TensorSpec(LOGITS, (config.vocabulary,), "float32")]
    for state in states:
        inputs.append(TensorSpec(state.input, state.initial.shape, str(state.initial.dtype)))
        outputs.append(TensorSpec(state.output, state.initial.shape, str(state.initial.dtype)))
    return ImportedModel(
        mod=mod,
        name=decoder.name,
        format=decoder.format,
        sha256=decoder.sha256,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        nodes=emitter.nodes,
        quantized=False,
        reference=partial(reference, decoder, layers, capacity),
        states=tuple(states),
        examples=_examples(config.vocabulary, rows, states),
    )


def _examples(vocabulary: int, rows: int, states: Sequence[State]) -> dict[str, Array]:
    """Return tokens of the whole vocabulary, and the states before a text."""
    ids = np.random.default_rng(0).integers(0, vocabulary, rows).astype(np.int32)
    return {IDS: ids} | {state.input: np.array(state.initial) for state in states}


def _attention(decoder: Decoder, layer: int, rows: int, capacity: int, cache: str) -> CachedAttention:
    config = decoder.config
    return CachedAttention(
        rows,
        config.heads,
        config.groups,
        config.size,
        capacity,
        config.scale,
        config.window_of(layer),
        layer not in config.unrotated,
        cache,
    )


@dataclass
class _Emitter:
    """Emits the layers of a decoder.

    Attributes:
        decoder: The decoder.
        layers: Attention of each layer.
        capacity: Positions of the caches.
        constants: As for `build`.
        nodes: Name of each operator → its kind, in order.
    """

    decoder: Decoder
    layers: Sequence[CachedAttention]
    capacity: int
    constants: Constants
    nodes: dict[str, str] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    _symbols: dict[tuple[object, ...], GlobalVar] = field(default_factory=dict)

    def module(self, rows: int, states: Sequence[tuple[str, tuple[int, ...], str]]) -> IRModule:
        """Return the module; `states` has name, shape and dtype of each state."""
        builder, config = self.graph.builder, self.decoder.config
        ids = Var(IDS, relax.TensorType((rows,), "int32"))
        position, *caches = (Var(name, relax.TensorType(shape, dtype)) for name, shape, dtype in states)
        with builder.function("main", [ids, position, *caches]):
            with builder.dataflow():
                x = self._embedded(ids)
                following: list[Expr] = []
                for layer in range(config.layers):
                    x, *held = self._layer(layer, x, position, caches[2 * layer : 2 * layer + 2])
                    following += held
                self._at("head", "Linear")
                if rows > 1:
                    x = self.graph.emit(R.strided_slice(x, [0], [rows - 1], [rows]))
                x = self._norm(x, "norm")
                logits = self._linear(x, [self.decoder.head])
                logits = self.graph.emit(R.reshape(logits, (config.vocabulary,)))
                self._at(POSITION, "Add")
                after = self.graph.emit(R.add(position, relax.const(np.array([rows], np.int32), "int32")))
                result = builder.emit_output(relax.Tuple([logits, after, *following]))
            builder.emit_func_output(result)
        mod = builder.get()
        main = mod.get_global_var("main")
        mod.update_func(main, name_calls(mod["main"], self.graph.names))
        return mod

    def _at(self, node: str, kind: str) -> None:
        self.graph.node = node
        self.nodes.setdefault(node, kind)

    def _routine(
        self,
        key: tuple[object, ...],
        make: Callable[[], Routine],
        args: Sequence[Expr],
        constants: Sequence[Array],
        out: object,
    ) -> Expr:
        """Bind a call of a routine; calls with equal keys, whose first entry is a name, call one function."""
        if key not in self._symbols:
            self._symbols[key] = self.graph.builder.add_func(make().func, str(key[0]))
        held = map(self._constant, constants)
        return self.graph.emit(relax.call_tir(self._symbols[key], [*args, *held], out))

    def _constant(self, array: Array, *, transposed: bool = False) -> Expr:
        """Return an array as a constant, which is made once for each array."""
        key = id(array), transposed
        if key not in self.constants:
            held = np.ascontiguousarray(array.T if transposed else array)
            self.constants[key] = array, relax.const(held, str(array.dtype))
        return self.constants[key][1]

    def _embedded(self, ids: Var) -> Expr:
        self._at("embedding", "Gather")
        table, scale = self.decoder.matrices["embedding"], self.decoder.config.embedding_scale
        rows = int(ids.ty.shape[0])
        if isinstance(table, BlockWeights):
            out = relax.TensorType((rows, table.depth), "float32")
            make = partial(gather_blocks_routine, rows, table)
            x = self._routine(("gather_blocks", rows), make, [ids], table.constants, out)
        else:
            x = self.graph.emit(R.take(self._constant(table), ids, 0))
        return x if scale == 1.0 else self.graph.emit(R.multiply(x, relax.const(scale, "float32")))

    def _layer(self, layer: int, x: Expr, position: Var, caches: Sequence[Var]) -> tuple[Expr, Expr, Expr]:
        """Emit a layer; return the hidden states, and the next keys and values."""
        name = f"layers.{layer}"
        self._at(f"{name}.attention_norm", "RMSNorm")
        normal = self._norm(x, f"{layer}.attention_norm")
        self._at(f"{name}.qkv", "Linear")
        qkv = self._linear(normal, [self.decoder.matrices[f"{layer}.{part}"] for part in "qkv"], f"{layer}.")
        qkv = self._normal_heads(layer, qkv)
        self._at(f"{name}.attention", "Attention")
        held, keys, values = self._attended(layer, qkv, position, caches)
        self._at(f"{name}.o", "Linear")
        x = self._added(
            x, self._linear(held, [self.decoder.matrices[f"{layer}.o"]]), f"{layer}.attention_output_norm"
        )
        self._at(f"{name}.feed_forward_norm", "RMSNorm")
        normal = self._norm(x, f"{layer}.feed_forward_norm")
        self._at(f"{name}.gate_up", "Linear")
        both = self._linear(normal, [self.decoder.matrices[f"{layer}.{part}"] for part in ("gate", "up")])
        self._at(f"{name}.gated", self.decoder.config.activation)
        inner = self.decoder.config.inner
        gate, up = (self.graph.emit(R.strided_slice(both, [1], [at], [at + inner])) for at in (0, inner))
        activation = R.nn.silu if self.decoder.config.activation == "silu" else R.nn.gelu_tanh
        gated = self.graph.emit(R.multiply(self.graph.emit(activation(gate)), up))
        self._at(f"{name}.down", "Linear")
        down = self._linear(gated, [self.decoder.matrices[f"{layer}.down"]])
        return self._added(x, down, f"{layer}.feed_forward_output_norm"), keys, values

    def _attended(
        self, layer: int, qkv: Expr, position: Var, caches: Sequence[Var]
    ) -> tuple[Expr, Expr, Expr]:
        attention = self.layers[layer]
        args = [position, qkv]
        if attention.rotary:
            args.append(self._constant(self.decoder.config.table(layer, self.capacity)))
        out = [relax.TensorType(shape, dtype) for shape, dtype in attention.arguments[-3:]]
        make = partial(cached_attention_routine, attention)
        result = self._routine(("cached_attention", attention), make, [*args, *caches], (), out)
        y, keys, values = (self.graph.emit(TupleGetItem(result, k)) for k in range(3))
        return y, keys, values

    def _added(self, x: Expr, y: Expr, norm: str) -> Expr:
        if norm in self.decoder.vectors:
            y = self._norm(y, norm)
        return self.graph.emit(R.add(x, y))

    def _norm(self, x: Expr, name: str) -> Expr:
        weight = self._constant(self.decoder.vectors[name])
        return self.graph.emit(R.nn.rms_norm(x, weight, [-1], self.decoder.config.epsilon))

    def _normal_heads(self, layer: int, qkv: Expr) -> Expr:
        """Emit the norms of queries and keys, head by head, if the architecture has them."""
        if f"{layer}.q_norm" not in self.decoder.vectors:
            return qkv
        config = self.decoder.config
        rows, ends = (
            int(qkv.ty.shape[0]),
            np.cumsum([config.heads, config.groups, config.groups]) * config.size,
        )
        parts = []
        for name, start, end in zip(("q_norm", "k_norm", ""), (0, *ends), ends, strict=False):
            part = self.graph.emit(R.strided_slice(qkv, [1], [int(start)], [int(end)]))
            if name:
                self._at(f"layers.{layer}.{name}", "RMSNorm")
                heads = self.graph.emit(R.reshape(part, (rows, int(end - start) // config.size, config.size)))
                normal = self._norm(heads, f"{layer}.{name}")
                part = self.graph.emit(R.reshape(normal, (rows, int(end - start))))
            parts.append(part)
        return self.graph.emit(R.concat(parts, 1))

    def _linear(self, x: Expr, parts: Sequence[Matrix], bias: str = "") -> Expr:
        """Emit the products with weights whose columns stand side by side in the result."""
        whole = self.decoder.joined(parts)
        if whole is None:
            return self._biased(
                self.graph.emit(R.concat([self._product(x, part) for part in parts], 1)), bias
            )
        return self._biased(self._product(x, whole), bias)

    def _biased(self, y: Expr, layer: str) -> Expr:
        biases = [self.decoder.vectors.get(f"{layer}{part}.bias") for part in "qkv"] if layer else []
        known = [bias for bias in biases if bias is not None]
        return self.graph.emit(R.add(y, relax.const(np.concatenate(known), "float32"))) if known else y

    def _product(self, x: Expr, matrix: Matrix) -> Expr:
        if not isinstance(matrix, BlockWeights):
            return self.graph.emit(R.matmul(x, self._constant(matrix, transposed=True)))
        rows, columns = int(x.ty.shape[0]), len(matrix.held)
        has = (matrix.bits, matrix.group, matrix.shift, str(matrix.scales.dtype), matrix.offsets is not None)
        key = "linear_blocks", rows, matrix.depth, columns, *has
        out = relax.TensorType((rows, columns), "float32")
        make = partial(linear_blocks_routine, rows, matrix)
        return self._routine(key, make, [x], matrix.constants, out)
