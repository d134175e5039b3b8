# SPDX-License-Identifier: Apache-2.0
"""Translation of a `Preprocess`'s post-processing steps into operations; steps that do not fit the model are errors."""

from typing import Literal

from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.preprocess.options import (
    FLOAT,
    QUANTIZED,
    Along,
    OutputStep,
    Quantization,
    TopK,
    Where,
    check_zero_point,
    fault,
)
from arm_ext.frontends.preprocess.preprocess_plan import OperationChain
from arm_ext.frontends.preprocess.steps import ArgMax, Dequantize, Operation, Softmax
from arm_ext.frontends.preprocess.steps import TopK as TopKOf


def plan_output(spec: TensorSpec, steps: list[OutputStep]) -> list[OperationChain]:
    """Return the operations for a model's output: one chain of them, or two chains for top_k.

    Raises:
        UsageError: A step does not fit the tensor that it gets.
    """
    chains = [OperationChain(spec, (), spec)]
    for number, step in enumerate(steps):
        where = ("outputs", spec.name, number, step.key)
        if len(chains) > 1:
            raise fault(where, "nothing can follow top_k")
        chains = _extended(chains[0], step, where)
    return chains


def _extended(chain: OperationChain, step: OutputStep, where: Where) -> list[OperationChain]:
    now = chain.result
    match getattr(step, step.key):
        case Quantization() as quantization:
            if now.dtype not in QUANTIZED:
                raise fault(where, f"it is {now.describe()}; expected int8 or uint8")
            check_zero_point(quantization, now.dtype, where)
            operation = Dequantize(quantization.scale, quantization.zero_point)
            return [_then(chain, operation, TensorSpec(now.name, now.shape, FLOAT))]
        case TopK() as top:
            axis = _axis(top, now, where)
            _check_float(now, where)
            if top.k > now.shape[axis]:
                raise fault(where, f"k is {top.k}, and axis {top.axis} of {now.describe()} is shorter")
            shape = (*now.shape[:axis], top.k, *now.shape[axis + 1 :])
            kinds: tuple[tuple[Literal["values", "indices"], str], ...] = (
                ("values", FLOAT),
                ("indices", "int64"),
            )
            return [
                _then(chain, TopKOf(axis, top.k, what), TensorSpec(f"{now.name}_{what}", shape, dtype))
                for what, dtype in kinds
            ]
        case Along() as along:
            axis = _axis(along, now, where)
            if step.key == "softmax":
                _check_float(now, where)
                return [_then(chain, Softmax(axis), now)]
            shape = (*now.shape[:axis], *now.shape[axis + 1 :])
            return [_then(chain, ArgMax(axis), TensorSpec(now.name, shape, "int64"))]
    raise AssertionError(step)


def _then(chain: OperationChain, operation: Operation, result: TensorSpec) -> OperationChain:
    return OperationChain(chain.source, (*chain.operations, operation), result)


def _axis(along: Along, spec: TensorSpec, where: Where) -> int:
    rank = len(spec.shape)
    if not -rank <= along.axis < rank:
        raise fault((*where, "axis"), f"{spec.describe()} has no axis {along.axis}")
    return along.axis % rank


def _check_float(spec: TensorSpec, where: Where) -> None:
    if spec.dtype != FLOAT:
        raise fault(where, f"it is {spec.describe()}; expected float32, which dequantize makes of integers")
