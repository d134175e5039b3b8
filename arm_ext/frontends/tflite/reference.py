# SPDX-License-Identifier: Apache-2.0
"""LiteRT as the independent reference for a TFLite model; compiling does not need it."""

import importlib.metadata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt
import tflite

from arm_ext.common.errors import EnvError, ModelError
from arm_ext.frontends.common.child_process import Apart, DiedError, call_apart
from arm_ext.frontends.tflite.codes import SVDF_STATE, operator_name

_LITERT = "ai-edge-litert"


def reference(
    model: bytes, variables: Sequence[int], inputs: Sequence[npt.NDArray[Any]]
) -> tuple[list[npt.NDArray[Any]], str]:
    """Run a model by LiteRT's default kernels.

    Args:
        model: A TFLite file's bytes.
        variables: Numbers of the tensors that it keeps: their values are the last inputs, and the last outputs.
        inputs: Inputs in the model's order, then those.

    Returns:
        The outputs, none if LiteRT is not installed or cannot run the model; and its name and version.
    """
    try:
        name = f"LiteRT {importlib.metadata.version(_LITERT)}"
    except importlib.metadata.PackageNotFoundError:
        return [], f"LiteRT is not installed; pip install {_LITERT}"
    if _has_narrow_svdf(model):
        return [], f"{name} has no SVDF with a state of 8 bits, as it has for microcontrollers"
    try:
        return run_litert(model, inputs, variables), name
    except DiedError as err:
        return [], f"{name} crashes when it runs the model: {err}"
    except (RuntimeError, ValueError) as err:
        return [], f"{name} cannot run it: {str(err).strip().splitlines()[0]}"


def _has_narrow_svdf(model: bytes) -> bool:
    """Whether a model has an SVDF with an 8-bit state, which LiteRT would treat as 16-bit and write out of bounds."""
    root = tflite.Model.GetRootAsModel(model, 0)
    graph = root.Subgraphs(0)
    operators = (graph.Operators(k) for k in range(graph.OperatorsLength()))
    return any(
        operator_name(root, op) == "SVDF"
        and graph.Tensors(op.Inputs(SVDF_STATE)).Type() == tflite.TensorType.INT8
        for op in operators
    )


def unreachable(_: Sequence[npt.NDArray[Any]]) -> tuple[list[npt.NDArray[Any]], str]:
    """Return no outputs, and the reason why a model with named variables has no reference."""
    return [], "LiteRT lets nobody set the variables that a model assigns by name"


def run_litert(
    model: bytes, inputs: Sequence[npt.NDArray[Any]], variables: Sequence[int] = ()
) -> list[npt.NDArray[Any]]:
    """Run a model once in a child process, on one thread, by the default kernels: XNNPACK's, where it has one.

    Args:
        model: A TFLite file's bytes.
        inputs: Inputs in the model's order.
        variables: As for `reference`; without them, variables have their initial values.

    Raises:
        DiedError: The process ended.
        RuntimeError, ValueError: LiteRT cannot run the model.
    """
    return call_apart(lambda: _run(model, inputs, variables), "LiteRT")


def _run(
    model: bytes, inputs: Sequence[npt.NDArray[Any]], variables: Sequence[int]
) -> list[npt.NDArray[Any]]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model, num_threads=1)
    details = interpreter.get_input_details()
    for detail, value in zip(details, inputs, strict=False):
        if value.shape != tuple(detail["shape"]):
            interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    numbers = [detail["index"] for detail in details]
    for number, value in zip([*numbers, *variables], inputs, strict=True):
        interpreter.set_tensor(number, value)
    interpreter.invoke()
    results = [detail["index"] for detail in interpreter.get_output_details()]
    return [interpreter.get_tensor(number) for number in (*results, *variables)]


class Tensors:
    """Runs LiteRT on a model in a child process, and returns any tensors of its main graph.

    Raises:
        EnvError: LiteRT is not installed.
        ModelError: LiteRT cannot run the model.
    """

    def __init__(self, model: bytes, name: str) -> None:
        self._name = name
        try:
            self.runtime = f"LiteRT {importlib.metadata.version(_LITERT)}"
        except importlib.metadata.PackageNotFoundError as err:
            raise EnvError(
                f"{name}: TFLite models are compared with LiteRT, which is not installed: pip install {_LITERT}"
            ) from err
        if _has_narrow_svdf(model):
            raise ModelError(f"{name}: {self.runtime} does not support an SVDF with an 8-bit state")
        with self._refusing():
            self._run: Apart[_Job, dict[int, npt.NDArray[Any]]] = Apart(lambda: _Interpreter(model), "LiteRT")

    def __call__(
        self, inputs: Sequence[npt.NDArray[Any]], numbers: Sequence[int], before: Sequence[int] = ()
    ) -> dict[int, npt.NDArray[Any]]:
        """Return tensors by number, for inputs in the model's order.

        The model's variables keep their values from one call to the next.

        Args:
            inputs: Values of the inputs.
            numbers: Tensors to return.
            before: Variables to return, too, with the values that they have before the run.
        """
        with self._refusing():
            return self._run((inputs, numbers, before))

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except DiedError as err:
            raise ModelError(f"{self._name}: {self.runtime} crashes when it runs the model: {err}") from err
        except (RuntimeError, ValueError) as err:
            said = str(err).strip().splitlines()[0]
            raise ModelError(f"{self._name}: {self.runtime} cannot run it: {said}") from err


_Job = tuple[Sequence[npt.NDArray[Any]], Sequence[int], Sequence[int]]
"""Arguments of a call of `Tensors`."""


class _Interpreter:
    """LiteRT's interpreter of a model on one thread, with LiteRT's own kernels instead of XNNPACK's."""

    def __init__(self, model: bytes) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self._interpreter = Interpreter(
            model_content=model,
            num_threads=1,
            # XNNPACK would not keep the tensors inside the parts of the graph that it runs.
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        self._inputs = self._interpreter.get_input_details()
        self._sized: list[tuple[int, ...]] = []

    def __call__(self, job: _Job) -> dict[int, npt.NDArray[Any]]:
        inputs, numbers, before = job
        if (shapes := [value.shape for value in inputs]) != self._sized:
            for detail, shape in zip(self._inputs, shapes, strict=True):
                self._interpreter.resize_tensor_input(detail["index"], shape)
            self._interpreter.allocate_tensors()
            self._sized = shapes
        for detail, value in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], value)
        kept = {number: self._interpreter.get_tensor(number) for number in before}
        self._interpreter.invoke()
        return {number: self._interpreter.get_tensor(number) for number in numbers} | kept
