# SPDX-License-Identifier: Apache-2.0
"""Converters of custom operators from plugins. All front ends look here before their own tables."""

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

from arm_ext.common.errors import ArmExtError, ModelError, UsageError
from arm_ext.common.stdout import stdout_as_stderr
from arm_ext.frontends.common.refuse import reason_of
from schedules.numerics.routine import FUSED_ALONE
from schedules.tir.emit import in_root_block


@dataclass(frozen=True)
class CustomOp:
    """A custom operator of a model, passed to a plugin's converter.

    Attributes:
        type: Name of the operator as in error messages: "com.example.Swirl" for ONNX, "CUSTOM.Swirl" for TFLite,
            "mylib.swirl.default" for PyTorch, "stablehlo.custom_call @swirl" for StableHLO.
        name: Name of the node, for messages.
        inputs: Operands as Relax variables or constants; None for an absent optional one.
        attributes: Attributes by name: numbers, strings, lists of them, arrays. A TFLite operator has the bytes of its
            "custom_options".
        builder: Builder of the Relax function that the model is imported to.
    """

    type: str
    name: str
    inputs: Sequence[relax.Expr | None]
    attributes: Mapping[str, Any]
    builder: relax.BlockBuilder

    def emit(self, expr: relax.Expr) -> relax.Var:
        """Emit a call of a Relax operator, and return the variable that is bound to it."""
        return self.builder.emit(expr)

    def call(
        self,
        func: tirx.PrimFunc,
        inputs: Sequence[relax.Expr],
        shape: Sequence[int],
        dtype: str = "float32",
    ) -> relax.Var:
        """Emit a call of a TensorIR function, which is compiled without further scheduling.

        Args:
            func: The function; its arguments are the inputs in order, then the output.
            inputs: The inputs.
            shape: Shape of the output.
            dtype: Dtype of the output.
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
        """Return the value of a constant input.

        Raises:
            ModelError: The input is computed at run time.
        """
        operand = self.inputs[index]
        if not isinstance(operand, relax.Constant):
            self.refuse(f"its input {index} is computed at run time; it must be a constant")
        return np.asarray(operand.value.numpy())

    def refuse(self, why: str) -> NoReturn:
        """Raise an error that refuses the model because of this node.

        Raises:
            ModelError: Always.
        """
        raise ModelError(f"{self.type} node '{self.name}': {why}")


Convert = Callable[[CustomOp], relax.Expr | Sequence[relax.Expr]]
"""Converter: returns the operator's value, or its values in order."""

_GIVEN: ContextVar[Mapping[str, Convert]] = ContextVar("converters", default=MappingProxyType({}))
"""The converters of imports in this context. It is a context variable, since the five places that look one up lie deep
in four front ends, which commands enter in a dozen ways (an import, a reference of onnxruntime, calibration, an
inferred shape), and each of these would have to pass them on for custom operators alone."""


@contextmanager
def converters(given: Mapping[str, Convert]) -> Iterator[None]:
    """Open a scope in which imports use these converters, whose keys are `CustomOp.type`."""
    token = _GIVEN.set(given)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def converter_for(kind: str) -> Convert | None:
    """Return the plugin's converter for an operator; None if no plugin has one."""
    return _GIVEN.get().get(kind)


def convert_custom(op: CustomOp, outputs: int) -> list[relax.Var]:
    """Convert an operator by the plugin's converter, and return its results.

    Args:
        op: An operator that has a converter.
        outputs: Number of values that the operator has.

    Raises:
        UsageError: The converter fails, or returns something other than that many Relax expressions.
        ModelError: The converter refuses the node.
    """
    convert = _GIVEN.get()[op.type]
    with blaming(convert, f"{op.type} node '{op.name}'"):
        found = convert(op)
        values = list(found.fields) if isinstance(found, relax.Tuple) else found
        values = list(values) if isinstance(values, list | tuple) else [values]
        if any(not isinstance(value, tvm.ir.Expr) for value in values):
            what = ", ".join(type(value).__name__ for value in values)
            raise TypeError(f"it returns {what} instead of Relax expressions")
        values = [value if isinstance(value, relax.Var) else op.emit(value) for value in values]
        if len(values) != outputs:
            raise ValueError(f"it returns {len(values)} values, but the node has {outputs} outputs")
    return values


@contextmanager
def blaming(function: Any, doing: str) -> Iterator[None]:
    """Open a scope for a plugin's function: exceptions become errors with file and line, and prints go to stderr.

    Args:
        function: The plugin's function that is called.
        doing: What it is called for, as the message says it.

    Raises:
        UsageError: An exception was raised; the message names the innermost line in the function's file.
    """
    try:
        with stdout_as_stderr():
            yield
    except BaseException as err:  # plugin code can raise any type
        if is_ours(err):
            raise
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        path = code.co_filename if code is not None else ""
        lines = [frame.lineno for frame in traceback.extract_tb(err.__traceback__) if frame.filename == path]
        line = lines[-1] if lines else getattr(code, "co_firstlineno", 0)
        text = linecache.getline(path, line).strip() if lines and line else ""
        shown = f" ({text})" if text else ""
        name = getattr(function, "__qualname__", type(function).__name__)
        raise UsageError(
            f"plugin {path}, line {line}{shown}: {name} fails at {doing}: {what_users_raised(err)}"
        ) from err


def is_ours(error: BaseException) -> bool:
    """Whether an exception from user code is one of this package, or ends the process (Ctrl-C, a signal)."""
    ours = type(error).__module__.partition(".")[0] == "arm_ext"
    return ours or isinstance(error, ArmExtError | KeyboardInterrupt | GeneratorExit)


def what_users_raised(error: BaseException) -> str:
    """Return the type and message of an exception that user code has raised."""
    if isinstance(error, RecursionError):
        return "it calls itself without end"
    try:
        reason = reason_of(error)
    except ArmExtError:  # memory ended
        raise
    except Exception:  # the message is also computed by user code
        reason = ""
    kind = type(error).__name__
    return f"{kind}: {reason}" if reason and reason != kind else kind
