# SPDX-License-Identifier: Apache-2.0
"""QDQ groups as graphs, made integer and run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Expr, Var
from tvm.relax import op

from arm_ext.pipeline.machine_code import linked
from relay_passes.integerize import integerize
from relay_passes.ir.sources import bindings_of, unnamed_calls
from relay_passes.ir.verify import verify
from schedules.diagnostic import Diagnostic
from schedules.numerics.qdq import NUMERICS
from tests.relay_passes.graphs import Net
from tests.schedules.numerics.routines import Per

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Input:
    """A quantised input."""

    shape: tuple[int, ...]
    per: Per

    def values(self, seed: int) -> Array:
        """All over the range, its ends among them."""
        info = np.iinfo(self.per.dtype)
        q = np.random.default_rng(seed).integers(info.min, info.max + 1, self.shape).astype(self.per.dtype)
        q.flat[:: max(q.size // 3, 1)] = info.min
        q.flat[-1] = info.max
        return q


class Graph(Net):
    """A function whose inputs and outputs are integers."""

    def dequantize(self, name: str, q: Expr, per: Per) -> Var:
        return self.emit(name, op.dequantize(q, *_constants(per), axis=0))

    def quantize(self, name: str, real: Expr, per: Per) -> Var:
        return self.emit(name, op.quantize(real, *_constants(per), axis=0, out_dtype=per.dtype))

    def weight(
        self, q: Array, scale: float | Array, zero_point: int | Array = 0, axis: int = 0, name: str = "w"
    ) -> Var:
        """A dequantised constant, per tensor or along an axis."""
        s = relax.const(np.asarray(scale, np.float32))
        z = relax.const(np.broadcast_to(np.asarray(zero_point, q.dtype), np.shape(scale)).copy())
        return self.emit(name, op.dequantize(relax.const(q), s, z, axis=axis))


def _constants(per: Per) -> tuple[Expr, Expr]:
    return relax.const(np.float32(per.scale)), relax.const(np.array(per.zero_point, per.dtype))


Body = Callable[..., Expr]


def qdq(body: Body, inputs: Sequence[Input], y: Per | None) -> tvm.IRModule:
    """quantize(body(graph, dequantize(input)…)); `y` None: the body quantises itself, or need not."""
    graph = Graph()
    params = [relax.Var(f"x{i}", relax.TensorType(x.shape, x.per.dtype)) for i, x in enumerate(inputs)]

    def whole() -> Expr:
        reals = [
            graph.dequantize(f"dq{i}", p, x.per) for i, (p, x) in enumerate(zip(params, inputs, strict=True))
        ]
        value = body(graph, *reals)
        return value if y is None else graph.quantize("q", value, y)

    return graph.module(params, whole)


def made_integer(mod: tvm.IRModule) -> tuple[tvm.IRModule, tuple[Diagnostic, ...]]:
    """The module after the pass, verified."""
    out, left = integerize(mod, NUMERICS)
    verify(out, after="integerize")
    assert unnamed_calls(out) == []
    return out, left


def float_values(mod: tvm.IRModule) -> list[str]:
    """The variables of float dtypes."""
    return [
        str(b.var.name)
        for b in bindings_of(mod["main"])
        if isinstance(b.var.ty, relax.TensorType) and "float" in str(b.var.ty.dtype)
    ]


def run(mod: tvm.IRModule, inputs: Sequence[Array]) -> list[Array]:
    """Run `main` on this machine, compiled for all that its CPU has; LLVM does not optimise, which is sooner."""
    target = tvm.target.Target(
        {"kind": "llvm", "opt-level": 0, "mcpu": tvm.target.codegen.llvm_get_system_cpu()}
    )
    vm = relax.VirtualMachine(linked(tvm.compile(mod, target)), tvm.cpu())
    result = vm["main"](*(tvm.runtime.tensor(x) for x in inputs))
    outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [output.numpy() for output in outputs]


def computed(body: Body, inputs: Sequence[Input], y: Per | None) -> tuple[Array, list[Array]]:
    """What the group computes when nothing in it is float, and on which inputs."""
    mod, left = made_integer(qdq(body, inputs, y))
    assert left == ()
    assert float_values(mod) == []
    values = [x.values(seed) for seed, x in enumerate(inputs)]
    (output,) = run(mod, values)
    # A constant output would agree with anything.
    assert output.size == 1 or len(np.unique(output)) > 1
    return output, values


def refused(body: Body, inputs: Sequence[Input], y: Per | None) -> tuple[Diagnostic, ...]:
    """What stays float; the module must still compute the same as before."""
    before = qdq(body, inputs, y)
    mod, left = made_integer(before)
    assert left
    values = [x.values(seed) for seed, x in enumerate(inputs)]
    for ours, theirs in zip(run(mod, values), run(before, values), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return left


def centred(q: Array, zero_point: int | Array) -> Array:
    """Integers less their zero point, int64."""
    return np.asarray(q.astype(np.int64) - zero_point)
