# SPDX-License-Identifier: Apache-2.0
"""Convolutional nets in NCHW whose weights are small integers: sums in any order are equal, bit for bit."""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from arm_ext.pipeline.machine_code import linked
from relay_passes import fold_constants
from schedules.generic import LEGALIZE
from tests.relay_passes.graphs import Net, tensor

# Batch, channels, height, width.
SHAPE = (1, 8, 9, 7)

Body = Callable[["Cnn", relax.Var], relax.Expr]


class Cnn(Net):
    """A net of which every value is named."""

    def const(self, *shape: int, low: float = -2, high: float = 2) -> relax.Expr:
        return relax.const(self.rng.integers(int(low), int(high) + 1, shape).astype("float32"))

    def conv(self, x: relax.Expr, channels: int, kernel: int = 3, **attrs: object) -> relax.Var:
        inputs = int(x.ty.shape[1]) // int(attrs.get("groups", 1))
        weight = self.const(channels, inputs, kernel, kernel)
        attrs = {"padding": kernel // 2} | attrs
        return self.emit(f"conv{len(self.names)}", op.nn.conv2d(x, weight, **attrs))

    def then(self, value: relax.Expr) -> relax.Var:
        return self.emit(f"step{len(self.names)}", value)

    def item(self, value: relax.Var, index: int) -> relax.Var:
        return self.bb.emit(relax.TupleGetItem(value, index))


def net(body: Body, shape: tuple[int, ...] = SHAPE) -> tvm.IRModule:
    """The module, canonical but for rules."""
    cnn, x = Cnn(), tensor("x", *shape)
    return fold_constants(cnn.module([x], lambda: body(cnn, x)))


def run_all(mod: tvm.IRModule, *inputs: np.ndarray) -> list[np.ndarray]:
    """Run a `main` that returns a tuple on this machine."""
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})  # of the values the same, and sooner
    mod = relax.transform.LegalizeOps(LEGALIZE)(mod)  # with what TVM lacks
    vm = relax.VirtualMachine(linked(tvm.compile(mod, target)), tvm.cpu())
    return [result.numpy() for result in vm["main"](*(tvm.runtime.tensor(x) for x in inputs))]


def pixels(shape: tuple[int, ...] = SHAPE, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")
