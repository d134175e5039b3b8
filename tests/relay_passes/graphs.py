# SPDX-License-Identifier: Apache-2.0
"""Small Relax graphs of the kinds that models are made of, and how to name and run them."""

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from arm_ext.pipeline.machine_code import linked
from relay_passes.ir.sources import bindings_of, name_bindings
from schedules.generic import LEGALIZE


class Net:
    """Builds one dataflow function; every call is named as it is emitted."""

    def __init__(self, seed: int = 0) -> None:
        self.bb = relax.BlockBuilder()
        self.rng = np.random.default_rng(seed)
        self.names: dict[relax.Var, str] = {}

    def const(self, *shape: int, low: float = -1.0, high: float = 1.0) -> relax.Expr:
        return relax.const(self.rng.uniform(low, high, shape).astype("float32"))

    def emit(self, name: str, value: relax.Expr) -> relax.Var:
        var = self.bb.emit(value)
        self.names[var] = name
        return var

    def module(self, inputs: Sequence[relax.Var], body: Callable[[], relax.Expr]) -> tvm.IRModule:
        with self.bb.function("main", list(inputs)):
            with self.bb.dataflow():
                output = self.bb.emit_output(body())
            self.bb.emit_func_output(output)
        # emit_output binds the result a second time; the alias goes, as importers leave none.
        mod = self.bb.finalize()
        mod["main"] = name_bindings(mod["main"], self.names)
        return mod


def tensor(name: str, *shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


def conv_bn_relu() -> tvm.IRModule:
    net, x = Net(), tensor("x", 1, 3, 9, 7)

    def body() -> relax.Expr:
        y = net.emit("conv", op.nn.conv2d(x, net.const(8, 3, 3, 3), padding=1))
        bn = net.emit(
            "bn",
            op.nn.batch_norm(
                y, *(net.const(8) for _ in range(3)), net.const(8, low=0.5, high=2.0), axis=1, training=False
            ),
        )
        return net.emit("relu", op.nn.relu(net.bb.emit(relax.TupleGetItem(bn, 0))))

    return net.module([x], body)


def residual_block() -> tvm.IRModule:
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> relax.Expr:
        y = x
        for i in (1, 2):
            y = net.emit(f"conv{i}", op.nn.conv2d(y, net.const(8, 8, 3, 3), padding=1))
            bias = net.emit(f"bias{i}", op.reshape(net.const(8), (1, 8, 1, 1)))
            y = net.emit(f"conv{i}", op.add(y, bias))
            y = net.emit(f"relu{i}", op.nn.relu(y)) if i == 1 else y
        return net.emit("flat", op.reshape(net.emit("sum", op.add(y, x)), (1, 8 * 9 * 7)))

    return net.module([x], body)


def depthwise() -> tvm.IRModule:
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> relax.Expr:
        y = net.emit("dw", op.nn.conv2d(x, net.const(8, 1, 3, 3), padding=1, groups=8))
        y = net.emit("relu6", op.clip(y, 0.0, 6.0))
        y = net.emit("pw", op.nn.conv2d(y, net.const(31, 8, 1, 1)))
        return net.emit("pool", op.mean(y, [2, 3]))

    return net.module([x], body)


def transformer_block() -> tvm.IRModule:
    net, x = Net(), tensor("x", 1, 7, 16)

    def body() -> relax.Expr:
        y = net.emit("norm", op.nn.layer_norm(x, net.const(16), net.const(16), axes=[-1]))
        score = net.emit("score", op.matmul(y, net.emit("turn", op.permute_dims(y, [0, 2, 1]))))
        y = net.emit("mix", op.matmul(net.emit("softmax", op.nn.softmax(score)), y))
        y = net.emit("fc1", op.matmul(y, net.const(16, 31)))
        y = net.emit("gelu", op.nn.gelu(net.emit("fc1_bias", op.add(y, net.const(31)))))
        y = net.emit("fc2", op.matmul(y, net.const(31, 16)))
        return net.emit("sum", op.add(net.emit("fc2_bias", op.add(y, net.const(16))), x))

    return net.module([x], body)


def twins() -> tvm.IRModule:
    """Two equal groups, which FuseOps gives one function."""
    net, x = Net(), tensor("x", 1, 8, 8, 8)
    weight = net.const(8, 8, 3, 3)

    def body() -> relax.Expr:
        y = net.emit("relu1", op.nn.relu(net.emit("conv1", op.nn.conv2d(x, weight, padding=1))))
        y = net.emit("softmax", op.nn.softmax(y))
        y = net.emit("relu2", op.nn.relu(net.emit("conv2", op.nn.conv2d(y, weight, padding=1))))
        return net.emit("softmax2", op.nn.softmax(y))

    return net.module([x], body)


GRAPHS: dict[str, Callable[[], tvm.IRModule]] = {
    f.__name__: f for f in (conv_bn_relu, residual_block, depthwise, transformer_block, twins)
}


def run(mod: tvm.IRModule, *inputs: np.ndarray) -> np.ndarray:
    """Run `main` on this machine."""
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})  # of the values the same, and sooner
    mod = relax.transform.LegalizeOps(LEGALIZE)(mod)  # with what TVM lacks
    vm = relax.VirtualMachine(linked(tvm.compile(mod, target)), tvm.cpu())
    return vm["main"](*(tvm.runtime.tensor(x) for x in inputs)).numpy()


def inputs_of(mod: tvm.IRModule, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.uniform(-2, 2, [int(d) for d in p.ty.shape]).astype(str(p.ty.dtype)) for p in mod["main"].params
    ]


def operators(func: relax.Function) -> list[str]:
    """Operators of a function's calls, in order, without "relax."."""
    return [
        str(getattr(b.value.op, "name", b.value.op)).removeprefix("relax.")
        for b in bindings_of(func)
        if isinstance(b.value, tvm.ir.Call)
    ]
