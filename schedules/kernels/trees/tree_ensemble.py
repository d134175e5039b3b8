# SPDX-License-Identifier: Apache-2.0
"""Decision tree ensembles: several tree walks are interleaved, without branches that depend on the data.

    i[u] = children[i[u]] + (x[features[i[u]]] > thresholds[i[u]])      u = 0 ... walks - 1, depth times

A walk is the path of a row from the root of a tree to a leaf. A step takes six instructions, LDRH, LDR, LDR, FCMP,
LDRSW and CINC, with a latency of 13 cycles for loads and flags, which interleaving the walks of several trees hides.
The child of a leaf is the leaf itself, so that all trees of a block can take as many steps as its deepest tree; trees
are sorted by depth. If paths are much shorter than trees are deep, as after best-first training, a block ends when all
its walks are at leaves, which is checked every few steps.

100 trees of depth 6 take 600 steps per row. Alternatives were compared by their number of instructions:
- Bit vectors of leaves, with a mask for each node whose test fails (QuickScorer). 3,150 of the 6,300 nodes fail on
  average, at five instructions each: four times those of the walks. It is faster than walks with mispredicted branches.
- Vectors of four rows (or trees) and gathers. NEON has no gathers, and 128-bit SVE takes as many loads as the walks.
- All nodes of a tree for four rows at once, 3 instructions per four comparisons: at depth 6, 47 instructions per tree
  and row instead of 36, and twice as many with each further level; at depth 4, 11 instead of 24, but the masks take as
  many as are saved.
- Heaps, with children at 2 i and 2 i + 1 instead of a table of children. As many instructions (an addition instead of a
  load), and padding to perfect trees, which leaf-wise training seldom produces.

Blocks of trees are the outer loop, so that their nodes stay in L1 for all rows of a task. If nodes treat NaN in
several ways, each row is first copied once per kind of comparison: see `schedules.numerics.tree_ensemble`. The sum of a
row depends neither on other rows nor on threads.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.next_node import next_node, next_nodes
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import copies, threads
from schedules.kernels.common.contract import Array, KernelMatch, declined, taken
from schedules.numerics.tree_ensemble import IDENTITY, IS_NAN, NAN_IS_LARGE, VALUE, Forest, combined
from schedules.tir.emit import i64, kernel_function, load, store

NAME = "tree_ensemble"

COMPOSITE = "arm.tree_ensemble"

WALKS = (1, 2, 4, 8)
"""Numbers of interleaved walks: each keeps an index and two loaded values in the 31 general registers."""

STEP = 6
"""Instructions of a step of one walk."""

LATENCY = 13
"""Latency of a step in cycles: two loads (index of the feature 4, its value 6), FCMP 2, CINC 1, according to the
software optimization guides of Neoverse N1 and N2."""

AROUND = 4
"""Instructions per tree besides its steps: loads of the root, the leaf's row and its value, and an addition."""

LOOK = 4
"""Steps between two checks whether all walks of a block are at leaves."""

ROWS = 64
"""Largest number of rows of a task: 16 KB of data for 64 features."""

FEWEST_ROWS = 8
"""Least number of rows of a parallel task, so that the trees of a block are read that often from L1."""

BESIDE = {1: 0.0, 2: 0.24, 4: 0.44, 8: 0.57}
"""Number of walks → the longest path of a block, from 0 for the mean path to 1 for the depth. Measured on unseen
rows and averaged over a random forest (depth 29, mean path 16) and boosted trees grown leaf by leaf (depth 10, mean
path 6.5); for 8 walks, these are 0.40 and 0.74."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        walks: Number of interleaved walks, each in a different tree.
        rows: Number of rows per task.
        fused: Whether comparison and addition are inline assembly; see `schedules.intrinsics.next_node`.
        early: Whether a block ends as soon as all its walks are at leaves, instead of after its maximum depth.
        parallel: Whether tasks are spread over the runtime's threads.
    """

    walks: int
    rows: int
    fused: bool = False
    early: bool = False
    parallel: bool = False

    def __post_init__(self) -> None:
        if self.walks not in WALKS:
            raise ValueError(f"{self.walks} interleaved walks; expected one of {', '.join(map(str, WALKS))}")


@dataclass(frozen=True)
class TreeLayer:
    """A tree ensemble applied to rows.

    Attributes:
        forest: Sizes of the ensemble.
        rows: Number of rows.
        nodes: Number of nodes of all trees.
        leaves: Number of rows of leaf values.
        dtype: Dtype of the data.
    """

    forest: Forest
    rows: int
    nodes: int
    leaves: int
    dtype: str

    def blocks(self, walks: int) -> tuple[int, ...]:
        """Return the number of blocks of each group of trees."""
        return tuple(-(-count // walks) for count in self.forest.groups)

    @property
    def number(self) -> str:
        """Dtype of the indices of features."""
        return str(np.min_scalar_type(max(0, self.forest.kinds * self.forest.columns - 1)))

    @property
    def width(self) -> int:
        """Number of values per leaf."""
        return self.forest.targets if self.forest.shared else 1


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept ensembles whose arrays are constants."""
    layer = _read(workload)
    if isinstance(layer, Diagnostic):
        return layer
    forest = layer.forest
    return KernelMatch(f"{forest.trees} trees of depth {forest.depth}, {layer.rows} x {forest.columns}")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return parameters for numbers of walks up to the number of trees, with and without early end."""
    layer = _layer(workload)
    found = []
    for walks in WALKS:
        if walks > 1 and walks > max(layer.forest.groups):
            continue
        for early in (False, True):
            params = Params(walks, min(layer.rows, ROWS), core.neon and core.vector_pipes > 1, early)
            if estimate(workload, params, core) >= threads.PARALLEL_CYCLES and layer.rows >= 2 * FEWEST_ROWS:
                rows = min(ROWS, max(FEWEST_ROWS, layer.rows // threads.PARALLEL_TASKS))
                params = replace(params, rows=rows, parallel=True)
            found.append(params)
    return tuple(found)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core, with all nodes in L1."""
    layer = _layer(workload)
    forest, walks = layer.forest, params.walks
    blocks = sum(layer.blocks(walks))
    deep, path = (total / max(1, forest.trees) for total in (forest.levels, forest.steps))
    instructions: float = walks * STEP + 2
    if params.early:
        deep = min(deep, path + BESIDE[walks] * (deep - path)) + LOOK / 2
        instructions += (2 * walks + 1) / LOOK
    step = max(instructions / core.issue_width, LATENCY)
    vectors = -(-layer.width // LANES)
    after = (walks * (AROUND + vectors - 1) + 2 * vectors + 4) / core.issue_width
    copied = forest.columns * (forest.kinds - 1) * 2 / core.issue_width
    return layer.rows * (blocks * (deep * step + after) + copied)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the arrays of nodes, and the roots, the depth and the target of each block of trees.

    Blocks are padded with trees of one leaf, whose value is the identity of the aggregate.
    """
    layer, walks = _layer(workload), params.walks
    forest = layer.forest
    thresholds, features, children, leaves, roots, values, base = constants
    at = len(thresholds)
    thresholds = np.append(thresholds, np.array(np.inf, thresholds.dtype))
    features = np.append(features, 0).astype(layer.number)
    children, leaves = (np.append(a, b).astype(np.int32) for a, b in ((children, at), (leaves, layer.leaves)))
    nothing = np.full((1, layer.width), IDENTITY[forest.aggregate], np.float32)
    depths = np.append(_depths(children, roots), 0)
    order, targets, first = [], [], 0
    for target, (count, blocks) in enumerate(zip(forest.groups, layer.blocks(walks), strict=True)):
        own = np.arange(first, first + count)
        own = own[np.argsort(depths[own], kind="stable")]
        order += [own, np.full(blocks * walks - count, forest.trees)]
        targets += [target] * blocks
        first += count
    trees = np.concatenate(order).astype(np.int64)
    return (
        thresholds,
        features,
        children,
        leaves,
        np.append(roots, at).astype(np.int32)[trees],
        depths[trees].reshape(-1, walks).max(1).astype(np.int32),
        np.array(targets, np.int32),
        np.concatenate([values, nothing]).ravel(),
        base,
    )


def _depths(children: Array, roots: Array) -> Array:
    """Return the depth of each tree: the number of steps from its root to its farthest leaf."""
    depths = np.zeros(len(roots), np.int32)
    tree, node, level = np.arange(len(roots)), roots.astype(np.int64), 0
    while len(node):
        depths[tree] = level
        inner = children[node] != node
        tree, node = np.repeat(tree[inner], 2), children[node[inner]].astype(np.int64)
        node = np.stack([node, node + 1], 1).ravel()
        level += 1
    return depths


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    layer = _layer(workload)
    forest, blocks = layer.forest, sum(layer.blocks(params.walks))
    arguments = [
        ((layer.rows, forest.columns), layer.dtype),
        ((layer.nodes + 1,), layer.dtype),
        ((layer.nodes + 1,), layer.number),
        ((layer.nodes + 1,), "int32"),
        ((layer.nodes + 1,), "int32"),
        ((blocks * params.walks,), "int32"),
        ((blocks,), "int32"),
        ((blocks,), "int32"),
        (((layer.leaves + 1) * layer.width,), "float32"),
        ((forest.targets,), "float32"),
        ((layer.rows, forest.targets), "float32"),
    ]
    scope = next_nodes() if params.fused else nullcontext()
    with kernel_function("arm_tree_ensemble", arguments) as function, scope:
        emitter = _TreeEmitter(layer, params, function.buffers)
        threads.each_tile(layer.rows, params.rows, params.parallel, emitter.rows)
    return function.prim_func


class _TreeEmitter:
    """Emits the walks of all trees for the rows of a task."""

    def __init__(self, layer: TreeLayer, params: Params, buffers: Sequence[tirx.Buffer]) -> None:
        self.layer, self.forest, self.params = layer, layer.forest, params
        self.x, self.thresholds, self.features, self.children, self.leaves, *rest = buffers
        self.roots, self.depths, self.targets, self.values, self.base, self.output = rest

    def rows(self, first: ir.Expr, count: int) -> None:
        """Emit the results of `count` rows from row `first` on."""
        walks, columns = self.params.walks, self.forest.columns
        data, start, width = self.x, first * columns, columns
        if self.forest.kinds > 1:
            width = self.forest.kinds * columns
            data, start = self.compared(first, count), i64(0)
        with T.serial(i64(0), i64(count)) as row:
            to = T.Bind((first + row) * self.forest.targets)
            copies.copy(self.base, i64(0), self.output, to, self.forest.targets)
        with T.serial(i64(0), i64(sum(self.layer.blocks(walks)))) as block:
            depth, target = (self.index(buffer, block) for buffer in (self.depths, self.targets))
            roots = [self.index(self.roots, block * walks + u) for u in range(walks)]
            with T.serial(i64(0), i64(count)) as row:
                nodes = self.walk(roots, depth, data, T.Bind(start + row * width))
                self.add(nodes, target, T.Bind((first + row) * self.forest.targets))

    def compared(self, first: ir.Expr, count: int) -> tirx.Buffer:
        """Emit the copy of `count` rows from `first` on, once per kind of comparison; return its buffer."""
        columns, kinds, dtype = self.forest.columns, self.forest.kinds, self.layer.dtype
        data = T.alloc_buffer((count * kinds * columns,), dtype, scope="global", layout=None)
        numbers = {VALUE: 0.0, NAN_IS_LARGE: math.inf, IS_NAN: 1.0}

        def constant(value: float, lanes: int) -> ir.Expr:
            scalar = tirx.FloatImm(dtype, value)
            return scalar if lanes == 1 else tirx.Broadcast(scalar, lanes)

        with T.serial(i64(0), i64(count)) as row:
            start, to = T.Bind((first + row) * columns), T.Bind(row * (kinds * columns))
            for at, lanes in self.vectors(columns):
                value = load(self.x, start + at, lanes)
                number = _is_number(value)
                for kind in range(kinds):
                    seen = value if kind != IS_NAN else constant(0.0, lanes)
                    if kind != VALUE:
                        seen = tirx.Select(number, seen, constant(numbers[kind], lanes))
                    store(data, seen, to + kind * columns + at, lanes)
        return data

    def vectors(self, count: int) -> Iterator[tuple[ir.Expr, int]]:
        """Emit loops over `count` elements in vectors; yield the offset and the number of lanes of each."""
        lanes = copies.REGISTER // np.dtype(self.layer.dtype).itemsize
        whole = count // lanes
        if whole:
            with T.serial(i64(0), i64(whole)) as index:
                yield T.Bind(index * lanes), lanes
        for at, left in copies.pieces(count - whole * lanes, lanes):
            yield i64(whole * lanes + at), left

    def walk(
        self, roots: Sequence[ir.Expr], depth: ir.Expr, data: tirx.Buffer, start: ir.Expr
    ) -> list[ir.Expr]:
        """Emit the walks in a block's trees for a row; return the indices of the leaves."""
        node = T.alloc_buffer((self.params.walks,), "int64", layout=None)
        for u, root in enumerate(roots):
            T.buffer_store(node, root, [i64(u)])
        if not self.params.early:
            with T.serial(i64(0), depth):
                self.step(node, data, start)
            return [T.Bind(node[i64(u)]) for u in range(self.params.walks)]
        moving = T.alloc_buffer((1,), "int64", layout=None)
        T.buffer_store(moving, depth, [i64(0)])
        with T.While(moving[i64(0)] != i64(0)):
            for _ in range(LOOK):
                self.step(node, data, start)
            left: ir.Expr = i64(0)
            for u in range(self.params.walks):
                at = T.Bind(node[i64(u)])
                left = left | (self.index(self.children, at) ^ at)
            T.buffer_store(moving, left, [i64(0)])
        return [T.Bind(node[i64(u)]) for u in range(self.params.walks)]

    def step(self, node: tirx.Buffer, data: tirx.Buffer, start: ir.Expr) -> None:
        """Emit one step of all walks, from the nodes `node`."""
        at = [T.Bind(node[i64(u)]) for u in range(self.params.walks)]
        features = [self.index(self.features, i) for i in at]
        values = [load(data, start + feature, 1) for feature in features]
        for u, (i, value) in enumerate(zip(at, values, strict=True)):
            threshold, child = load(self.thresholds, i, 1), self.index(self.children, i)
            if self.params.fused:
                T.buffer_store(node, next_node(value, threshold, child), [i64(u)])
            else:
                T.buffer_store(node, child + tirx.Cast("int64", value > threshold), [i64(u)])

    def add(self, nodes: Sequence[ir.Expr], target: ir.Expr, to: ir.Expr) -> None:
        """Emit the aggregation of a block's leaf values into the results of a row."""
        width = self.layer.width
        rows = [self.index(self.leaves, node) for node in nodes]
        if not self.forest.shared:
            self.put([load(self.values, row, 1) for row in rows], T.Bind(to + target), 1)
            return
        starts = [T.Bind(row * width) for row in rows]
        whole = width // LANES
        if whole:
            with T.serial(i64(0), i64(whole)) as index:
                at = T.Bind(index * LANES)
                self.put([load(self.values, start + at, LANES) for start in starts], T.Bind(to + at), LANES)
        for piece, lanes in copies.pieces(width % LANES, LANES):
            at = i64(whole * LANES + piece)
            self.put([load(self.values, start + at, lanes) for start in starts], T.Bind(to + at), lanes)

    def put(self, values: list[ir.Expr], to: ir.Expr, lanes: int) -> None:
        """Emit the aggregation of values, combined in pairs first, into the output."""
        aggregate = self.forest.aggregate
        while len(values) > 1:
            values = [T.Bind(combined(aggregate, *values[k : k + 2])) for k in range(0, len(values), 2)]
        store(self.output, combined(aggregate, load(self.output, to, lanes), values[0]), to, lanes)

    def index(self, buffer: tirx.Buffer, at: ir.Expr) -> ir.Var:
        """Emit the load of an index, converted to int64."""
        return T.Bind(tirx.Cast("int64", buffer.vload([at], buffer.dtype)))


def _is_number(value: ir.Expr) -> ir.Expr:
    """Emit a test on the bits of a float that it is not NaN, because TVM simplifies x == x to true."""
    dtype, _, lanes = str(value.ty.dtype).partition("x")
    integer = dtype.replace("float", "int")
    info = np.finfo(dtype)
    largest = ((1 << (info.bits - 1 - info.nmant)) - 1) << info.nmant
    magnitude, infinity = tirx.IntImm(integer, (1 << (info.bits - 1)) - 1), tirx.IntImm(integer, largest)
    if lanes:
        integer = f"{integer}x{lanes}"
        magnitude, infinity = (tirx.Broadcast(bound, int(lanes)) for bound in (magnitude, infinity))
    return (T.Bind(tirx.reinterpret(integer, value)) & magnitude) <= infinity


def _layer(workload: Workload) -> TreeLayer:
    return taken(_read(workload), workload)


def _read(workload: Workload) -> TreeLayer | Diagnostic:
    if workload.composite != COMPOSITE:
        reason = "composite is no ensemble of trees"
        return declined(NAME, reason, COMPOSITE, workload.composite, unfit=True)
    x, thresholds, *_, values, _ = workload.operands
    if 0 in x.shape:
        return declined(NAME, "a dimension is 0", "1 or more", str(x.shape))
    forest = Forest.of(dict(workload.attributes), x.shape[1], workload.output_shape[1])
    return TreeLayer(forest, x.shape[0], thresholds.shape[0], values.shape[0], x.dtype)
