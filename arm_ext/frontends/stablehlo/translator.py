# SPDX-License-Identifier: Apache-2.0
"""Translation of a StableHLO function to Relax, operator by operator; called functions are inlined."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Expr, Var

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.control_flow import Callee, Program
from arm_ext.frontends.common.limits import MOST_CALLS, MOST_NESTED
from arm_ext.frontends.graph import Array, Graph, Shape, Value
from arm_ext.frontends.stablehlo.attributes import Tensor, Uniform, constant_of, resources_of, tensor_of, word
from arm_ext.frontends.stablehlo.expansions import known_functions
from relay_passes.ir.sources import name_bindings

Convert = Callable[["Translator", Any, list[Value]], list[Value]]

# Dtype in which quantised sums of products are stored; it is wider than `relax.quantize` supports.
_SUMS = "int32"


@dataclass(frozen=True)
class Complex:
    """A complex value as real and imaginary part."""

    real: Value
    imag: Value

    @property
    def shape(self) -> Shape:
        """Shape of the value."""
        return self.real.shape


class Translator(Graph):
    """Converts operators in the builder's current dataflow block.

    Attributes:
        functions: The module's functions by name.
        values: MLIR's values → what they are here, `Value` or `Complex`.
        program: The functions so far.
    """

    def __init__(
        self,
        module: Any,
        converter_of: Callable[[Any], Convert | None],
        named: Mapping[str, Convert],
        nodes: Mapping[Any, str],
    ) -> None:
        """Prepare for the translation of a module.

        Args:
            module: A module with static shapes.
            converter_of: Returns the converter of an operator.
            named: Operator name → its converter.
            nodes: Operation → its source name.
        """
        super().__init__()
        self.functions = functions_of(module)
        self.values: dict[Any, Any] = {}
        self.program = Program(lambda func: name_bindings(func, self.names))
        self._converter_of = converter_of
        self._named = named
        self._nodes = nodes
        self._resources = resources_of(module)
        self._calling: list[str] = []
        self._sums: dict[Expr, Value] = {}
        self._depth = 0

    def function(self, symbol: str, params: Sequence[Var], convert: Callable[[], Sequence[Value]]) -> Callee:
        """Add a function with the operators that `convert` emits; it returns a tuple, or its only result.

        Args:
            symbol: Name of the function.
            params: Parameters of the function.
            convert: Converts the body and returns its results.
        """
        return self.program.function(symbol, params, lambda builder: self.inside(builder, convert))

    def inside(self, builder: relax.BlockBuilder, convert: Callable[[], Sequence[Value]]) -> list[Expr]:
        """Emit operators in another builder's dataflow block and in a scope of values of its own.

        Return the results.
        """
        outer = self.builder, dict(self.values)
        self.builder = builder
        results = [result.full for result in convert()]
        self.builder, self.values = outer
        return results

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        """Inline a function.

        Raises:
            ModelError: The function calls itself.
        """
        if name in self._calling:
            raise ModelError(f"function '{name}' calls itself")
        self._calling.append(name)
        results = self.block(self.functions[name].regions[0].blocks[0], arguments)
        self._calling.pop()
        return results

    def block(self, block: Any, arguments: Sequence[Value]) -> list[Value]:
        """Convert a block's operators, and return its results.

        Raises:
            ModelError: The block is nested too deeply.
        """
        if self._depth > MOST_NESTED:
            raise ModelError(
                f"its branches, loops and calls are nested more than {MOST_NESTED} deep, the maximum that can be "
                "compiled"
            )
        self._depth += 1
        self.values.update(zip(block.arguments, arguments, strict=True))
        within = self.node
        *operations, last = block.operations
        functions, inside = known_functions(operations)
        for op in operations:
            if op.operation in functions:
                name, argument = functions[op.operation]
                self._convert(op, self._named[name], [argument])
            elif op.operation not in inside:
                self._convert(op, self._converter_of(op), op.operands)
        self.node = within
        self._depth -= 1
        return [self.values[value] for value in last.operands]

    def _convert(self, op: Any, convert: Convert | None, arguments: Sequence[Any]) -> None:
        name = op.operation.name
        self.node = self._nodes.get(op.operation, self.node)
        if len(self.names) > MOST_CALLS:
            raise ModelError(f"the program has more than {MOST_CALLS} operators with its loops unrolled")
        if name == "stablehlo.constant":
            results = [self._kept(constant_of(op, self._resources))]
        elif (empty := self._without_elements(op)) is not None:
            results = empty
        else:
            operands = [self._real(self.values[v], tensor_of(v.type)) for v in arguments]
            assert convert is not None  # others are refused before
            results = [
                self._stored(held, tensor_of(r.type))
                for held, r in zip(convert(self, op, operands), op.results, strict=True)
            ]
        for result, held in zip(op.results, results, strict=True):
            self._check(result, held)
            self.values[result] = held

    def _without_elements(self, op: Any) -> list[Value | Complex] | None:
        """Return constants if all results have no elements, which Relax's operators cannot reshape; else None."""
        tensors = [tensor_of(result.type) for result in op.results]
        if not tensors or any(x is None or x.is_complex or 0 not in x.shape for x in tensors):
            return None
        return [self.keep(np.zeros(x.shape, x.stored)) for x in tensors if x is not None]

    def _kept(self, value: Array) -> Value | Complex:
        if value.dtype.kind != "c":
            return self.keep(value)
        return Complex(self.keep(value.real.copy()), self.keep(value.imag.copy()))

    def _check(self, result: Any, held: Value | Complex) -> None:
        tensor = tensor_of(result.type)
        assert tensor is not None  # operators with other types have been refused earlier
        if isinstance(held, Complex):
            return
        if (held.shape, held.dtype) != (tensor.shape, tensor.stored):
            raise ModelError(
                f"its result would be {held.dtype}{list(held.shape)}, the model "
                f"says {tensor.stored}{list(tensor.shape)}"
            )

    def _real(self, held: Value, tensor: Tensor | None) -> Value:
        """Return the real numbers that the integers of a quantised tensor represent."""
        if tensor is None or tensor.uniform is None:
            return held
        if tensor.uniform.stored == _SUMS:
            known = self._sums.get(held.expr)
            return self._real_sum(held, tensor.uniform) if known is None else known
        return self._rescaled(relax.op.dequantize, held, tensor.uniform, tensor.uniform.expressed)

    def _stored(self, held: Value, tensor: Tensor | None) -> Value:
        """Return real numbers as the integers of a quantised type."""
        if tensor is None or tensor.uniform is None:
            return held
        if tensor.uniform.stored == _SUMS:
            return self._stored_sum(held, tensor.uniform)
        return self._rescaled(relax.op.quantize, held, tensor.uniform, tensor.uniform.stored)

    def _stored_sum(self, held: Value, uniform: Uniform) -> Value:
        """Return the integers of sums of products; operators that read them get the real numbers instead."""
        scale, zero = self._parameters(uniform, len(held.shape))
        steps = self.emit(relax.op.round(self.emit(relax.op.divide(held.full, scale))))
        sums = self.hold(relax.op.add(self.emit(relax.op.astype(steps, _SUMS)), zero))
        self._sums[sums.expr] = held
        return sums

    def _real_sum(self, held: Value, uniform: Uniform) -> Value:
        scale, zero = self._parameters(uniform, len(held.shape))
        steps = self.emit(relax.op.astype(self.emit(relax.op.subtract(held.full, zero)), uniform.expressed))
        return self.hold(relax.op.multiply(steps, scale))

    @staticmethod
    def _parameters(uniform: Uniform, rank: int) -> tuple[Expr, Expr]:
        """Return scales and zero points in a shape that broadcasts along all other axes."""
        sizes = [1] * rank if uniform.axis is not None else []
        if uniform.axis is not None:
            sizes[uniform.axis] = len(uniform.scales)
        scales, zeros = (
            np.array(uniform.scales, uniform.expressed),
            np.array(uniform.zero_points, uniform.stored),
        )
        return relax.const(scales.reshape(sizes)), relax.const(zeros.reshape(sizes))

    def _rescaled(self, function: Callable[..., Expr], held: Value, uniform: Uniform, dtype: str) -> Value:
        scales, zeros = np.array(uniform.scales, np.float32), np.array(uniform.zero_points, uniform.stored)
        if uniform.axis is None:
            scales, zeros = scales[0], zeros[0]
        axis = -1 if uniform.axis is None else uniform.axis
        return self.hold(
            function(held.full, relax.const(scales), relax.const(zeros), axis=axis, out_dtype=dtype)
        )


def functions_of(module: Any) -> dict[str, Any]:
    """Return a module's functions: name → function."""
    return {word(op, "sym_name"): op for op in module.body.operations if op.operation.name == "func.func"}
