# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that users bring; all front ends ask here before they look into their own tables."""

import linecache
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, tirx
from tvm.s_tir.stmt import SBlockRealize

from arm_ext.errors import ArmExtError, ModelError, UsageError
from arm_ext.frontends.common.refuse import reason_of
from schedules.numerics.routine import FUSED_ALONE
from schedules.tir.emit import in_root_block


@dataclass(frozen=True)
class CustomOp:
    """An operator of a model for a converter of a plugin.

    Attributes:
        type: Its name, as a refusal has it: "com.example.Swirl" of ONNX, "CUSTOM.Swirl" of TFLite,
            "mylib.swirl.default" of PyTorch, "stablehlo.custom_call @swirl" of StableHLO.
        name: The node's, for messages.
        inputs: Its operands, variables or constants of Relax; None where an optional one is absent.
        attributes: By name: numbers, texts, lists of them, arrays. Of a TFLite operator its "custom_options", bytes.
        builder: Of the function that is being built.
    """

    type: str
    name: str
    inputs: Sequence[relax.Expr | None]
    attributes: Mapping[str, Any]
    builder: relax.BlockBuilder

    def emit(self, expr: relax.Expr) -> relax.Var:
        """Add a call of a Relax operator, and return its value."""
        return self.builder.emit(expr)

    def call(
        self,
        func: tirx.PrimFunc,
        inputs: Sequence[relax.Expr],
        shape: Sequence[int],
        dtype: str = "float32",
    ) -> relax.Var:
        """Add a call of a function in TensorIR, as it is.

        Args:
            func: Its arguments are the inputs in order, then the output.
            inputs: What it reads.
            shape: Of the output.
            dtype: Of the output.
        """
        func = func if isinstance(func.body, SBlockRealize) else in_root_block(func)
        func = func.with_attr("op_pattern", FUSED_ALONE)
        symbol = self.builder.add_func(func.without_attr("global_symbol"), "custom")
        return self.emit(relax.call_tir(symbol, list(inputs), relax.TensorType(tuple(shape), dtype)))

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        operand = self.inputs[index]
        assert operand is not None
        return tuple(int(dim) for dim in operand.ty.shape)

    def array(self, index: int) -> npt.NDArray[Any]:
        """Return the value of an input that is constant.

        Raises:
            ModelError: It is computed at run time.
        """
        operand = self.inputs[index]
        if not isinstance(operand, relax.Constant):
            self.refuse(f"its input {index} is computed at run time, and a constant is taken")
        return np.asarray(operand.value.numpy())

    def refuse(self, why: str) -> NoReturn:
        """Refuse the model because of this node.

        Raises:
            ModelError: Always.
        """
        raise ModelError(f"{self.type} node '{self.name}': {why}")


Convert = Callable[[CustomOp], relax.Expr | Sequence[relax.Expr]]
"""Returns the operator's value, or all of its values in order."""

_GIVEN: ContextVar[Mapping[str, Convert]] = ContextVar("converters", default=MappingProxyType({}))


@contextmanager
def converters(given: Mapping[str, Convert]) -> Iterator[None]:
    """Have all imports inside of it take converters, by `CustomOp.type`."""
    token = _GIVEN.set(given)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def converter_for(kind: str) -> Convert | None:
    """Return the converter that a user brought for an operator, or None."""
    return _GIVEN.get().get(kind)


def convert_custom(op: CustomOp, outputs: int) -> list[relax.Var]:
    """Convert an operator by what the user brought for it; returns its values.

    Args:
        op: Of which `converter_for` knows a converter.
        outputs: How many values it has.

    Raises:
        UsageError: The converter fails, or returns something else.
        ModelError: It refuses the node.
    """
    convert = _GIVEN.get()[op.type]
    with blaming(convert, f"{op.type} node '{op.name}'"):
        found = convert(op)
        values = list(found.fields) if isinstance(found, relax.Tuple) else found
        values = list(values) if isinstance(values, list | tuple) else [values]
        if any(not isinstance(value, tvm.ir.Expr) for value in values):
            what = ", ".join(type(value).__name__ for value in values)
            raise TypeError(f"it returns {what}, and expressions of Relax are taken")
        values = [value if isinstance(value, relax.Var) else op.emit(value) for value in values]
        if len(values) != outputs:
            raise ValueError(f"it returns {len(values)} values, and the node has {outputs}")
    return values


@contextmanager
def blaming(function: Any, doing: str) -> Iterator[None]:
    """Report what goes wrong inside as an error of a plugin, with file and line.

    Args:
        function: Of the plugin.
        doing: What it was called for.

    Raises:
        UsageError: With the innermost line of the function's file.
    """
    try:
        yield
    except ArmExtError:
        raise
    except Exception as err:  # a plugin's own, of any type
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        path = code.co_filename if code is not None else ""
        lines = [frame.lineno for frame in traceback.extract_tb(err.__traceback__) if frame.filename == path]
        line = lines[-1] if lines else getattr(code, "co_firstlineno", 0)
        text = linecache.getline(path, line).strip() if lines and line else ""
        shown = f" ({text})" if text else ""
        what = f"{type(err).__name__}: {reason_of(err)}"
        name = getattr(function, "__qualname__", type(function).__name__)
        raise UsageError(f"plugin {path}, line {line}{shown}: {name} fails at {doing}: {what}") from err
