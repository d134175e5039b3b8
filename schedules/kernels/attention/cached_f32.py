# SPDX-License-Identifier: Apache-2.0
"""Attention of new tokens to all earlier ones, whose keys and values are in a cache that is written in place.

    q, k, v = qkv                           [rows, heads + 2 groups, size]; query heads share the keys of their group
    q, k    = rotated by their positions    (x1, x2) → (x1 cos - x2 sin, x2 cos + x1 sin), x1 and x2 the halves
    caches[position + row] = k, v
    y[row]  = softmax(scale q · keys[first ... position + row]) values

Sums are in the order of the elements of a head, and of positions, but for the last `length % UNROLL` of positions,
which are added from the last to the first. `cached_attention` computes in numpy the same bits as the kernel.

Costs follow the length in use, and not the capacity. A row is computed alone: its sums have the same order in calls of
any number of rows, so that a prompt gives the same bits in chunks of any size.

Keys are stored in blocks of eight positions, [group][position / 8][size][8]: a vector of scores is the sum over `size`
of a vector of keys times one element of the query, without sums across lanes, and a block is contiguous. Values are
[group][position][size]. Elements of the caches are converted once for up to `HEADS` query heads.

The caches are operands and results. A caller passes the same memory for both, or copies the operand to the result
before the call; see the attribute `schedules.tir.emit.IN_PLACE`.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics import exp_f32
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import high, low
from schedules.intrinsics.vector_f32 import Vector, evaluated
from schedules.kernels.common import threads
from schedules.numerics.binary32 import fma, total
from schedules.numerics.routine import FUSED_ALONE, KERNEL, Routine
from schedules.tir.emit import IN_PLACE, TensorSpec, converted, i64, kernel_function, load, splat, store

Array = npt.NDArray[Any]

NUMERICS, NAME = "float.cached_attention", "cached_f32"

PLACES = 8
"""Positions of a block of keys."""

HEADS = 3
"""Most query heads that are computed together: with 8 vectors of values each, 24 totals."""

UNROLL = 4
"""Iterations that are unrolled: vectors of elements of a query, and positions of values."""

_TOTALS = 24
"""Registers for totals of values."""

CYCLES = 18
"""Cycles of a head and a position, for the choice of threads: 55 instructions at 3 a cycle."""


@dataclass(frozen=True)
class CachedAttention:
    """An attention layer with a cache.

    Attributes:
        rows: Number of new tokens.
        heads: Query heads, a multiple of `groups`.
        groups: Heads of keys and values.
        size: Elements of a head, a multiple of 8.
        capacity: Positions of the cache, a multiple of `PLACES`.
        scale: Factor of the scores.
        window: Number of positions that a token sees, itself included; 0 for all.
        rotary: Whether queries and keys are rotated.
        cache: Dtype of the caches, float16 or float32.
    """

    rows: int
    heads: int
    groups: int
    size: int
    capacity: int
    scale: float
    window: int = 0
    rotary: bool = True
    cache: str = "float16"

    @property
    def keys(self) -> tuple[int, ...]:
        """Shape of the cache of keys."""
        return self.groups, self.capacity // PLACES, self.size, PLACES

    @property
    def values(self) -> tuple[int, ...]:
        """Shape of the cache of values."""
        return self.groups, self.capacity, self.size

    @property
    def tables(self) -> tuple[int, ...]:
        """Shape of the table of cosines and sines."""
        return self.capacity, 2, self.size // 2

    @property
    def arguments(self) -> list[TensorSpec]:
        """Position [1], qkv, table if rotary, keys, values; then the results: y, keys, values."""
        caches: list[TensorSpec] = [(self.keys, self.cache), (self.values, self.cache)]
        table: list[TensorSpec] = [(self.tables, "float32")] if self.rotary else []
        qkv = self.rows, (self.heads + 2 * self.groups) * self.size
        y: TensorSpec = (self.rows, self.heads * self.size), "float32"
        return [((1,), "int32"), (qkv, "float32"), *table, *caches, y, *caches]


def cached_attention_routine(layer: CachedAttention) -> Routine:
    """Return the routine of a layer; its arguments are `CachedAttention.arguments`.

    A position below 0 or too large for the cache counts as the nearest possible one.
    """
    count = len(layer.arguments)
    pairs = [count - 5, count - 2, count - 4, count - 1]
    with kernel_function("cached_attention", layer.arguments) as function:
        position, qkv, *table, _, _, y, keys, values = function.buffers
        last = tirx.Cast("int64", load(position, i64(0), 1))
        first = T.Bind(tirx.max(i64(0), tirx.min(last, i64(layer.capacity - layer.rows))))
        emitter = _Layer(layer, qkv, table[0] if table else None, y, keys, values, first)
        work = layer.rows * layer.heads * layer.capacity / 2 * CYCLES
        parallel = layer.rows * layer.groups > 1 and work >= threads.PARALLEL_CYCLES
        threads.each_part(layer.rows, layer.groups, False, emitter.append)
        threads.each_part(layer.rows, layer.groups, parallel, emitter.attend)
    assert function.prim_func is not None
    func = function.prim_func.without_attr("global_symbol").with_attr("op_pattern", FUSED_ALONE)
    return Routine(func.with_attrs({"numerics": NUMERICS, KERNEL: NAME, IN_PLACE: pairs}))


def cached_attention(
    layer: CachedAttention, position: int, qkv: Array, table: Array | None, keys: Array, values: Array
) -> tuple[Array, Array, Array]:
    """Return, in numpy, what the routine of a layer computes: y and the next keys and values.

    Args:
        layer: The layer.
        position: Of the first row.
        qkv: float32 [rows, (heads + 2 groups) * size].
        table: float32 `CachedAttention.tables`, None unless it is rotary.
        keys: The cache, `CachedAttention.keys`.
        values: The cache, `CachedAttention.values`.
    """
    first = min(max(position, 0), layer.capacity - layer.rows)
    heads = qkv.reshape(layer.rows, -1, layer.size)
    q, k, v = np.split(heads, [layer.heads, layer.heads + layer.groups], 1)
    turns = None if table is None else table[first : first + layer.rows, :, None]
    q, k = _turned(q, turns, layer.scale), _turned(k, turns, 1.0)
    by_place, values = keys.transpose(0, 1, 3, 2).reshape(layer.values), values.copy()
    for cache, new in ((by_place, k), (values, v)):
        cache[:, first : first + layer.rows] = new.transpose(1, 0, 2)
    y = [
        _attended(layer, first + row, q[row].reshape(layer.groups, -1, layer.size), by_place, values)
        for row in range(layer.rows)
    ]
    blocked = by_place.reshape(layer.groups, -1, PLACES, layer.size).transpose(0, 1, 3, 2)
    return np.stack(y).reshape(layer.rows, -1), np.ascontiguousarray(blocked), values


def _turned(x: Array, turns: Array | None, scale: float) -> Array:
    """Return heads [rows, heads, size] rotated by cosines and sines [rows, 2, 1, size / 2], times the scale."""
    factor = np.float32(scale)
    if turns is None:
        return x * factor
    a, b = np.split(x, 2, -1)
    cosine, sine = (turns[:, side] * factor for side in range(2))
    return np.concatenate([fma(b, -sine, a * cosine), fma(a, sine, b * cosine)], -1)


def _attended(layer: CachedAttention, place: int, q: Array, keys: Array, values: Array) -> Array:
    """Return the attention of a token, [groups, heads of a group, size], by queries of that shape."""
    begin, end = max(0, place + 1 - layer.window) if layer.window else 0, place + 1
    seen, held = (cache[:, None, begin:end].astype(np.float32) for cache in (keys, values))
    scores = np.zeros((*q.shape[:2], end - begin), np.float32)
    for d in range(layer.size):
        scores = fma(seen[..., d], q[..., d, None], scores)
    rest = scores - scores.max(-1, keepdims=True)
    powers = evaluated(partial(exp_f32.power, base_e=True), rest)
    lanes = np.zeros((*q.shape[:2], LANES), np.float32)
    for at in range(end - begin):
        lanes[..., (begin + at) % LANES] += powers[..., at]
    y, whole = np.zeros(q.shape, np.float32), (end - begin) // UNROLL * UNROLL
    for at in (*range(whole), *reversed(range(whole, end - begin))):
        y = fma(held[:, :, at], powers[..., at, None], y)
    return y * (np.float32(1) / total(lanes))[..., None]


@dataclass(frozen=True)
class _Layer:
    """Emits the code of a layer; `first` is the position of the first row."""

    layer: CachedAttention
    qkv: tirx.Buffer
    table: tirx.Buffer | None
    y: tirx.Buffer
    keys: tirx.Buffer
    values: tirx.Buffer
    first: ir.Expr

    def append(self, row: ir.Expr, group: ir.Expr) -> None:
        """Emit the store of a row's key and value of a group to the caches."""
        layer, size = self.layer, self.layer.size
        place = T.Bind(self.first + row)
        start = T.Bind(self._start(row) + (layer.heads + group) * size)
        block = T.Bind(group * (layer.capacity // PLACES) + tirx.floordiv(place, PLACES))
        to = T.Bind(block * (size * PLACES) + tirx.floormod(place, PLACES))
        key = T.alloc_buffer((size,), "float32", layout=None)
        self._rotated(start, place, key, i64(0), 1.0)
        with T.serial(i64(0), i64(size)) as d:
            store(self.keys, converted(load(key, d, 1), layer.cache), to + d * PLACES, 1)
        value, at = T.Bind(start + layer.groups * size), T.Bind((group * layer.capacity + place) * size)
        with T.serial(i64(0), i64(size // LANES)) as vector:
            part = converted(load(self.qkv, value + vector * LANES, LANES), layer.cache)
            store(self.values, part, at + vector * LANES, LANES)

    def attend(self, row: ir.Expr, group: ir.Expr) -> None:
        """Emit the attention of a row by the query heads of a group."""
        each = self.layer.heads // self.layer.groups
        full, rest = divmod(each, HEADS)
        if full:
            with T.serial(i64(0), i64(full)) as tile:
                self._heads(row, group, T.Bind(group * each + tile * HEADS), HEADS)
        if rest:
            self._heads(row, group, T.Bind(group * each + full * HEADS), rest)

    def _start(self, row: ir.Expr) -> ir.Expr:
        return row * ((self.layer.heads + 2 * self.layer.groups) * self.layer.size)

    def _rotated(self, start: ir.Expr, place: ir.Expr, to: tirx.Buffer, at: ir.Expr, scale: float) -> None:
        """Emit the rotation of a head of `qkv` from `start` on by its position, times the scale."""
        half, vector = self.layer.size // 2, Vector(LANES)
        if self.table is None:
            with T.serial(i64(0), i64(self.layer.size // LANES)) as part:
                store(
                    to,
                    load(self.qkv, start + part * LANES, LANES) * vector.const(scale),
                    at + part * LANES,
                    LANES,
                )
            return
        turn = T.Bind(place * self.layer.size)
        with T.serial(i64(0), i64(half // LANES)) as part:
            d = T.Bind(part * LANES)
            a, b = (load(self.qkv, start + d + side * half, LANES) for side in range(2))
            cosine, sine = (
                T.Bind(load(self.table, turn + d + side * half, LANES) * vector.const(scale))
                for side in range(2)
            )
            minus = T.Bind(sine * vector.const(-1.0))
            store(to, vector.fma(b, minus, T.Bind(a * cosine)), at + d, LANES)
            store(to, vector.fma(a, sine, T.Bind(b * cosine)), at + d + half, LANES)

    def _heads(self, row: ir.Expr, group: ir.Expr, head: ir.Expr, count: int) -> None:
        """Emit the attention of a row by `count` query heads from `head` on."""
        layer, size = self.layer, self.layer.size
        place = T.Bind(self.first + row)
        end = T.Bind(place + 1)
        begin = T.Bind(tirx.max(i64(0), end - layer.window)) if layer.window else i64(0)
        query = T.alloc_buffer((count * size,), "float32", layout=None)
        scores = T.alloc_buffer((count * layer.capacity,), "float32", layout=None)
        most = T.alloc_buffer((count * LANES,), "float32", layout=None)
        for h in range(count):
            self._rotated(
                T.Bind(self._start(row) + (head + h) * size), place, query, i64(h * size), layer.scale
            )
            store(most, splat(-math.inf, "float32", LANES), i64(h * LANES), LANES)
        span = T.Bind(tirx.floordiv(begin, PLACES)), T.Bind(tirx.floordiv(end + (PLACES - 1), PLACES))
        with T.serial(span[0], span[1]) as index:
            block = T.Bind(index)
            self._scores(group, block, query, (begin, end), scores, most)
        sums = [self._powers(h, span, scores, most) for h in range(count)]
        self._values(row, group, head, (begin, end), scores, sums)

    def _scores(
        self,
        group: ir.Expr,
        block: ir.Expr,
        query: tirx.Buffer,
        seen: tuple[ir.Expr, ir.Expr],
        scores: tirx.Buffer,
        most: tirx.Buffer,
    ) -> None:
        """Emit the scores of a block of positions, -infinity for those that are not seen, and their maxima."""
        layer, size, vector = self.layer, self.layer.size, Vector(LANES)
        count, vectors = math.prod(query.shape) // size, PLACES // LANES
        acc = T.alloc_buffer((int(count) * PLACES,), "float32", layout=None)
        for at in range(0, int(count) * PLACES, LANES):
            store(acc, splat(0.0, "float32", LANES), i64(at), LANES)
        start = T.Bind((group * (layer.capacity // PLACES) + block) * (size * PLACES))
        step = LANES * (UNROLL if size % (UNROLL * LANES) == 0 else 1)
        with T.serial(i64(0), i64(size // step)) as part:
            d = T.Bind(part * step)
            queries: list[ir.Expr] = []
            for lane in range(step):
                if lane % LANES == 0:
                    queries = [load(query, d + h * size + lane, LANES) for h in range(int(count))]
                keys = load(self.keys, start + (d + lane) * PLACES, PLACES)
                wide = [converted(T.Bind(each), "float32") for each in (low(keys), high(keys))]
                for h, each in enumerate(queries):
                    factor = tirx.Shuffle([each], [lane % LANES] * LANES)
                    for v in range(vectors):
                        at = i64(h * PLACES + v * LANES)
                        store(acc, vector.fma(wide[v], factor, load(acc, at, LANES)), at, LANES)
        for v in range(vectors):
            first = T.Bind(tirx.Cast("int32", block * PLACES + v * LANES))
            places = T.Bind(tirx.Ramp(first, tirx.IntImm("int32", 1), LANES))
            begin, end = (tirx.Broadcast(tirx.Cast("int32", each), LANES) for each in seen)
            unseen = splat(-math.inf, "float32", LANES)
            for h in range(int(count)):
                # Conditions are not bound to variables, because TVM's analysis of vectors of booleans fails.
                value = tirx.Select(places < end, load(acc, i64(h * PLACES + v * LANES), LANES), unseen)
                value = T.Bind(tirx.Select(places >= begin, T.Bind(value), unseen) if layer.window else value)
                store(scores, value, i64(h * layer.capacity) + block * PLACES + v * LANES, LANES)
                larger = tirx.call_llvm_pure_intrin(
                    "float32x4", "llvm.maximum.v4f32", load(most, i64(h * LANES), LANES), value
                )
                store(most, T.Bind(larger), i64(h * LANES), LANES)

    def _powers(
        self, h: int, span: tuple[ir.Expr, ir.Expr], scores: tirx.Buffer, most: tirx.Buffer
    ) -> ir.Expr:
        """Emit e**(score - maximum) in place of a head's scores; return the reciprocal of their sum."""
        lanes = load(most, i64(h * LANES), LANES)
        largest = T.Bind(tirx.call_llvm_pure_intrin("float32", "llvm.vector.reduce.fmaximum.v4f32", lanes))
        held = {c: T.Bind(splat(c, "float32", LANES)) for c in exp_f32.constants(base_e=True, table=False)}
        vector, total = Vector(LANES, held=held), T.alloc_buffer((LANES,), "float32", layout=None)
        store(total, splat(0.0, "float32", LANES), i64(0), LANES)
        with T.serial(span[0], span[1]) as index:
            block = T.Bind(i64(h * self.layer.capacity) + index * PLACES)
            for first in range(0, PLACES, LANES):
                rest = T.Bind(load(scores, block + first, LANES) - tirx.Broadcast(largest, LANES))
                power = exp_f32.power(vector, rest, base_e=True)
                store(scores, power, block + first, LANES)
                store(total, load(total, i64(0), LANES) + power, i64(0), LANES)
        parts = [T.Bind(tirx.Shuffle([load(total, i64(0), LANES)], [lane])) for lane in range(LANES)]
        return T.Bind(tirx.FloatImm("float32", 1.0) / ((parts[0] + parts[1]) + (parts[2] + parts[3])))

    def _values(
        self,
        row: ir.Expr,
        group: ir.Expr,
        head: ir.Expr,
        seen: tuple[ir.Expr, ir.Expr],
        scores: tirx.Buffer,
        factors: list[ir.Expr],
    ) -> None:
        """Emit the sums of values times powers, times the factors, in parts of a head that fit the registers."""
        layer, size, count = self.layer, self.layer.size, len(factors)
        step = min(size, _TOTALS // count // 2 * 2 * LANES)
        for first in range(0, size, step):
            width = min(step, size - first)
            acc = T.alloc_buffer((count * width,), "float32", layout=None)
            for at in range(0, count * width, LANES):
                store(acc, splat(0.0, "float32", LANES), i64(at), LANES)
            length = T.Bind(seen[1] - seen[0])
            with T.serial(i64(0), tirx.floordiv(length, UNROLL)) as index:
                self._add_values((group, T.Bind(seen[0] + index * UNROLL)), UNROLL, first, scores, acc)
            with T.serial(i64(0), tirx.floormod(length, UNROLL)) as index:
                self._add_values((group, T.Bind(seen[1] - 1 - index)), 1, first, scores, acc)
            for h, factor in enumerate(factors):
                to = T.Bind(row * (layer.heads * size) + (head + h) * size + first)
                for d in range(0, width, LANES):
                    value = load(acc, i64(h * width + d), LANES) * tirx.Broadcast(factor, LANES)
                    store(self.y, value, to + d, LANES)

    def _add_values(
        self, place: tuple[ir.Expr, ir.Expr], count: int, first: int, scores: tirx.Buffer, acc: tirx.Buffer
    ) -> None:
        """Emit the addition of values times powers to the sums of heads.

        Args:
            place: Group, and the first position.
            count: Number of consecutive positions.
            first: First element of a head that is summed.
            scores: The powers, [head][capacity].
            acc: The sums, [head][elements].
        """
        layer, vector, heads = self.layer, Vector(LANES), math.prod(scores.shape) // self.layer.capacity
        group, at = place
        width = int(math.prod(acc.shape)) // int(heads)
        start = T.Bind((group * layer.capacity + at) * layer.size + first)
        powers = [load(scores, i64(h * layer.capacity) + at, count) for h in range(int(heads))]
        for number in range(count):
            lanes = [T.Bind(tirx.Shuffle([p], [number])) if count > 1 else p for p in powers]
            for d in range(0, width, 2 * LANES):
                values = load(self.values, start + number * layer.size + d, 2 * LANES)
                wide = [converted(T.Bind(each), "float32") for each in (low(values), high(values))]
                for h, power in enumerate(lanes):
                    for v, each in enumerate(wide):
                        to = i64(h * width + d + v * LANES)
                        total = vector.fma(each, tirx.Broadcast(power, LANES), load(acc, to, LANES))
                        store(acc, total, to, LANES)
