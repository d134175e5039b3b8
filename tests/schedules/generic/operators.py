# SPDX-License-Identifier: Apache-2.0
"""PrimFuncs as the lowering leaves them: Relax operators through LegalizeOps, FuseOps and FuseTIR."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op

from schedules.generic import LEGALIZE
from tests.schedules.programs import host

Array = np.ndarray[Any, Any]
Shapes = Sequence[tuple[tuple[int, ...], str]]


def lowered(function: Callable[..., relax.Expr], *inputs: tuple[tuple[int, ...], str]) -> tirx.PrimFunc:
    """The one PrimFunc of a graph; inputs are shapes with dtypes."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorType(shape, dtype)) for i, (shape, dtype) in enumerate(inputs)]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(function(*params)))
        builder.emit_func_output(out)
    mod = builder.get()
    with host():
        for pass_ in (
            relax.transform.Normalize(),
            relax.transform.LegalizeOps(LEGALIZE),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ):
            mod = pass_(mod)
    (func,) = [func for _, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)]
    return func


def arguments(func: tirx.PrimFunc, seed: int = 0) -> list[Array]:
    """Random inputs, then outputs full of what no test expects."""
    rng = np.random.default_rng(seed)
    made = []
    for param in func.params:
        shape, dtype = tuple(int(d) for d in param.ty.shape), str(param.ty.dtype)
        if dtype.startswith("float"):
            made.append(np.asarray(rng.standard_normal(shape) * 3, dtype))
        else:
            low, high = (0, 2) if dtype in {"bool", "int64"} else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            low, high = max(low, -1000), min(high, 1000)
            made.append(
                np.asarray(rng.integers(low, high, shape, endpoint=dtype not in {"bool", "int64"}), dtype)
            )
    return made


def run(funcs: Sequence[tirx.PrimFunc], inputs: Sequence[Array]) -> list[list[Array]]:
    """What each function makes of all its arguments on this machine."""
    named = {f"f{i}": func.with_attr("global_symbol", f"f{i}") for i, func in enumerate(funcs)}
    module = tvm.tirx.build(tvm.IRModule(named), target=host())
    results = []
    for name in named:
        tensors = [tvm.runtime.tensor(array) for array in inputs]
        module[name](*tensors)
        results.append([tensor.numpy() for tensor in tensors])
    return results


def quantize(x: relax.Expr, scale: float, zero_point: int) -> relax.Expr:
    return op.quantize(
        x, relax.const(scale, "float32"), relax.const(zero_point, "int8"), axis=-1, out_dtype="int8"
    )


def dequantize(x: relax.Expr, scale: float, zero_point: int) -> relax.Expr:
    return op.dequantize(x, relax.const(scale, "float32"), relax.const(zero_point, "int8"), axis=-1)


F32 = "float32"

ASYMMETRIC = {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}

CASES: dict[str, tuple[Callable[..., relax.Expr], Shapes]] = {
    **{
        f"add {n}": (lambda x, y: op.add(x, op.nn.relu(y)), [((n,), F32), ((n,), F32)])
        for n in (1, 2, 3, 7, 8, 9, 31)
    },
    "add of bytes": (op.add, [((3, 33), "int8"), ((3, 33), "int8")]),
    "bias": (lambda x, b: op.nn.relu(op.add(x, b)), [((5, 7, 19), F32), ((19,), F32)]),
    "broadcast rows": (op.multiply, [((4, 9, 3), F32), ((4, 1, 3), F32)]),
    "big add": (op.add, [((64, 7001), F32), ((64, 7001), F32)]),
    "where": (op.where, [((5, 9), "bool"), ((5, 9), F32), ((5, 9), F32)]),
    "half": (lambda x: op.multiply(x, x), [((5, 9), "float16")]),
    "power": (lambda x: op.power(op.abs(x), relax.const(1.7, F32)), [((21,), F32)]),
    "gelu": (op.nn.gelu, [((3, 37), F32)]),
    "tanh of exp": (lambda x: op.tanh(op.exp(x)), [((67,), F32)]),
    "log": (lambda x: op.log(op.abs(x)), [((3, 37), F32)]),
    "silu": (op.nn.silu, [((3, 5), F32)]),
    "silu of a product": (
        lambda x, y, z: op.nn.silu(op.multiply(op.add(x, y), op.multiply(x, z))),
        [((5, 33), F32)] * 3,
    ),
    "softmax": (lambda x: op.nn.softmax(x, axis=-1), [((2, 3, 31), F32)]),
    "softmax of columns": (lambda x: op.nn.softmax(x, axis=1), [((2, 9, 31), F32)]),
    "layer norm": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]),
        [((7, 33), F32), ((33,), F32), ((33,), F32)],
    ),
    "mean of channels": (lambda x: op.mean(x, axis=[1, 2]), [((2, 7, 7, 37), F32)]),
    "mean over columns": (lambda x: op.mean(x, axis=[2, 3]), [((1, 5, 7, 9), F32)]),
    "sum of bytes": (lambda x: op.sum(op.astype(x, "int32"), axis=-1), [((5, 131), "int8")]),
    "sum of all": (lambda x: op.sum(op.astype(x, "int32")), [((5, 13), "int8")]),
    "sum of bytes, one each": (lambda x: op.sum(op.astype(x, "int32"), axis=-1), [((5, 1), "int8")]),
    "max": (lambda x: op.max(x, axis=[1]), [((3, 19, 5), F32)]),
    "prod": (lambda x: op.prod(x, axis=[0]), [((5, 9), F32)]),
    "argmax": (lambda x: op.argmax(x, axis=1), [((5, 19), F32)]),
    "argmax of columns": (lambda x: op.argmax(x, axis=1), [((2, 5, 3, 31), F32)]),
    "max pool": (
        lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1, 1, 1), layout="NHWC"),
        [((1, 9, 11, 17), F32)],
    ),
    "wide max pool": (
        lambda x: op.nn.max_pool2d(x, (5, 5), (2, 2), (2, 2, 2, 2), layout="NHWC"),
        [((1, 9, 11, 17), F32)],
    ),
    "average pool": (
        lambda x: op.nn.avg_pool2d(x, (3, 3), (1, 1), (1, 1, 1, 1), layout="NHWC", count_include_pad=False),
        [((1, 5, 6, 21), F32)],
    ),
    "transpose": (op.permute_dims, [((37, 41), F32)]),
    "transpose of bytes": (lambda x: op.permute_dims(x, [0, 2, 1]), [((3, 37, 23), "int8")]),
    "transpose of booleans": (lambda x: op.permute_dims(x, [0, 2, 1]), [((3, 37, 23), "bool")]),
    "transpose heads": (
        lambda x: op.permute_dims(op.reshape(x, (1, 9, 2, 20)), [0, 2, 3, 1]),
        [((1, 9, 40), F32)],
    ),
    "merge heads": (
        lambda x: op.reshape(op.permute_dims(x, [0, 2, 1, 3]), (1, 9, 40)),
        [((1, 2, 9, 20), F32)],
    ),
    "add transposed": (lambda x, y: op.add(op.permute_dims(x), y), [((21, 18), F32), ((18, 21), F32)]),
    "image": (
        lambda x: op.permute_dims(quantize(x, 0.0371, 5), [0, 2, 3, 1]),
        [((1, 3, 9, 11), F32)],
    ),
    "image out": (lambda x: op.permute_dims(dequantize(x, 0.1, -3), [0, 3, 1, 2]), [((1, 9, 11, 3), "int8")]),
    "concat": (lambda x, y: op.concat([x, op.exp(y)], axis=2), [((2, 3, 17), F32), ((2, 3, 9), F32)]),
    "concat rows": (lambda x, y, z: op.concat([x, y, z], axis=1), [((2, n, 18), "int8") for n in (3, 1, 4)]),
    "split": (lambda x: op.add(*(op.split(x, 2, axis=-1)[i] for i in (0, 1))), [((3, 34), F32)]),
    "pad": (lambda x: op.nn.pad(x, (0, 0, 1, 2, 3, 1, 0, 0)), [((1, 4, 5, 19), F32)]),
    "slice": (lambda x: op.strided_slice(x, [1, 2], [1, 3], [8, 20]), [((2, 9, 21), F32)]),
    "every second": (lambda x: op.strided_slice(x, [1], [0], [21], [2]), [((2, 21), F32)]),
    "every second of bytes": (lambda x: op.strided_slice(x, [1], [1], [80], [2]), [((3, 80), "int8")]),
    "every second of few": (lambda x: op.strided_slice(x, [1], [1], [16], [2]), [((3, 16), F32)]),
    "every second of booleans": (lambda x: op.strided_slice(x, [1], [1], [80], [2]), [((3, 80), "bool")]),
    "maxima of pairs": (
        lambda x: op.nn.max_pool2d(x, (1, 2), (1, 2), layout="NHWC"),
        [((1, 3, 62, 1), F32)],
    ),
    **{f"reversed {n}": (lambda x: op.flip(op.exp(x), 1), [((3, n), F32)]) for n in (2, 7, 8, 31)},
    "reversed bytes": (lambda x: op.flip(x, 1), [((3, 67), "int8")]),
    "reversed booleans": (lambda x: op.flip(x, 1), [((3, 67), "bool")]),
    "gather": (lambda x, i: op.take(x, i, axis=0, mode="clip"), [((2, 21), F32), ((5,), "int64")]),
    "resize": (
        lambda x: op.image.resize2d(
            x,
            (8, 10),
            layout="NHWC",
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
        [((1, 4, 5, 19), F32)],
    ),
    "resize linear": (
        lambda x: op.image.resize2d(x, (7, 9), layout="NHWC", method="linear"),
        [((1, 4, 5, 19), F32)],
    ),
    "matmul": (op.matmul, [((5, 9), F32), ((9, 21), F32)]),
    "matmul, scaled": (
        lambda x, y: op.multiply(op.matmul(x, y), relax.const(0.125, F32)),
        [((2, 5, 9), F32), ((2, 9, 21), F32)],
    ),
    "conv": (
        lambda x, w: op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="OHWI"),
        [((1, 5, 7, 9), F32), ((6, 3, 3, 9), F32)],
    ),
    "conv of channels first": (
        lambda x, w: op.nn.conv2d(x, w, padding=1),
        [((1, 9, 5, 7), F32), ((6, 9, 3, 3), F32)],
    ),
    "shifts": (
        lambda x: op.left_shift(op.right_shift(x, relax.const(3, "int32")), relax.const(1, "int32")),
        [((5, 31), "int32")],
    ),
    "bits": (
        lambda x, y: op.bitwise_xor(op.bitwise_and(x, y), op.bitwise_or(x, y)),
        [((5, 31), "int32")] * 2,
    ),
    "quantize": (lambda x: quantize(x, 0.0371, -7), [((5, 31), F32)]),
    # A row's class against all classes: one operand of the comparison is the same in all lanes.
    "one hot": (
        lambda x, k: quantize(op.astype(op.equal(op.expand_dims(x, 1), k), F32), 1 / 255, -128),
        [((31,), "int32"), ((16,), "int32")],
    ),
}
