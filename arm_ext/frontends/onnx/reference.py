# SPDX-License-Identifier: Apache-2.0
"""onnxruntime as the independent reference for an ONNX model."""

import platform
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    RuntimeException,
)

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.child_process import Apart, DiedError, call_apart
from arm_ext.frontends.common.refuse import reason_of
from arm_ext.frontends.onnx.weights import Serialised

_NONE: Mapping[str, npt.NDArray[Any]] = MappingProxyType({})
_FATAL = 4

_RAISED = (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeException)
REFUSALS = (*_RAISED, DiedError)
"""Exceptions that a session raises for a model that onnxruntime cannot run."""

RUN_SECONDS = 600.0
"""Longest run in onnxruntime of a model with loops: as long as a session with a board may last."""


@dataclass(frozen=True)
class Argument:
    """Name of an input or output of a session, as onnxruntime's own classes hold it."""

    name: str


class IsolatedSession:
    """A session of onnxruntime in a child process, since a model may crash it."""

    def __init__(self, make: Callable[[], "_LimitedSession"]) -> None:
        """Open the session.

        Args:
            make: Opens it; called in the process.

        Raises:
            REFUSALS: onnxruntime cannot open the model.
        """

        def serve() -> Callable[[_Job], Any]:
            session = make()
            return lambda job: session.arguments if job is None else session.run(*job)

        self._apart: Apart[_Job, Any] = Apart(serve, "onnxruntime")
        self._inputs, self._outputs = self._apart(None)

    def get_inputs(self) -> list[Argument]:
        """Return the inputs."""
        return list(self._inputs)

    def get_outputs(self) -> list[Argument]:
        """Return the outputs."""
        return list(self._outputs)

    def run(
        self, names: Sequence[str] | None, feed: Mapping[str, npt.NDArray[Any]]
    ) -> list[npt.NDArray[Any]]:
        """Return the outputs of these names, or all outputs if `names` is None.

        Raises:
            ModelError: A loop did not end in time.
            REFUSALS: onnxruntime cannot run the model.
        """
        found: list[npt.NDArray[Any]] = self._apart((names, feed))
        return found


class _LimitedSession:
    """A session of onnxruntime that stops a run after RUN_SECONDS if the model has loops.

    Args:
        session: The session.
        model: The model's bytes; a model without a Loop has no limit.
    """

    def __init__(self, session: onnxruntime.InferenceSession, model: bytes) -> None:
        self._session = session
        # A match in a weight or a name does no harm: the model then has a time limit, too.
        self._may_loop = b"Loop" in model
        self.arguments = tuple(
            tuple(Argument(value.name) for value in values)
            for values in (session.get_inputs(), session.get_outputs())
        )
        """The inputs, and the outputs."""

    def run(
        self, names: Sequence[str] | None, feed: Mapping[str, npt.NDArray[Any]]
    ) -> list[npt.NDArray[Any]]:
        """Return the outputs of these names, or all outputs if `names` is None.

        Raises:
            ModelError: A loop did not end in time.
        """
        options = onnxruntime.RunOptions()
        options.log_severity_level = _FATAL  # errors are raised as exceptions, and need not be logged too
        watchdog = threading.Timer(RUN_SECONDS, setattr, (options, "terminate", True))
        watchdog.daemon = True
        if self._may_loop:
            watchdog.start()
        try:
            return [np.asarray(value) for value in self._session.run(names, feed, options)]
        except _RAISED as err:
            if not options.terminate:
                raise
            at = re.search(r"running (\w+) node\. Name:'(.*?)'", str(err))
            where = f"{at[1]} node '{at[2]}'" if at else reason_of(err, line=0)
            raise ModelError(
                f"onnxruntime was ended after {RUN_SECONDS:g} s, the time limit for a model with loops, "
                f"in {where}: give the loop a maximum number of iterations, or use samples for which it ends"
            ) from err
        finally:
            watchdog.cancel()


def reference(model: Serialised, inputs: Sequence[npt.NDArray[Any]]) -> tuple[list[npt.NDArray[Any]], str]:
    """Run a model as onnxruntime would compute it in integers or, where that fails, node by node in float.

    Returns:
        The outputs, none if onnxruntime cannot run the model at all; and its name, version and settings.
    """
    name = f"onnxruntime {onnxruntime.__version__}"
    for integers, settings in ((True, ""), (False, ", unoptimised")):
        try:
            return run_onnxruntime(
                model.model, inputs, integers=integers, weights=model.weights
            ), name + settings
        except DiedError as err:
            refusal = f"{name} crashes when it runs the model: {err}"
        except _RAISED as err:
            refusal = f"{name} cannot run it: {str(err).strip().splitlines()[0]}"
        except ModelError as err:
            return [], f"{name} cannot run it: {err}"
    return [], refusal


def run_onnxruntime(
    model: bytes,
    inputs: Sequence[npt.NDArray[Any]],
    *,
    integers: bool,
    weights: Mapping[str, npt.NDArray[Any]] = _NONE,
) -> list[npt.NDArray[Any]]:
    """Run a serialised model on one thread.

    Args:
        model: The serialised model.
        inputs: Inputs in the model's order.
        integers: Whether to compute QDQ groups in integers, all optimisations on; else every node on its own, in
            float between quantise and dequantise.
        weights: Weights that are not in `model`, which refers to them as external data.
    """
    session = open_session(Serialised(model, dict(weights)), integers=integers)
    feed = dict(zip((value.name for value in session.get_inputs()), inputs, strict=True))
    return session.run(None, feed)


def open_session(model: Serialised, *, integers: bool) -> IsolatedSession:
    """Return a session on one thread; `integers` as for `run_onnxruntime`."""
    return IsolatedSession(partial(_open, model, integers))


def open_file(path: Path, *, optimised: bool = True) -> IsolatedSession:
    """Return a session for a model's file, with one thread per core."""

    def make() -> _LimitedSession:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL
        if not optimised:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        return _LimitedSession(session, path.read_bytes())

    return IsolatedSession(make)


def write_optimised(model: bytes, path: Path, without: Sequence[str]) -> None:
    """Write a model after onnxruntime's basic optimisations.

    Args:
        model: The serialised model.
        path: File to write.
        without: Optimisations that are left out.

    Raises:
        REFUSALS: onnxruntime cannot open the model.
    """

    def write() -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.log_severity_level = _FATAL
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(
            model, options, ["CPUExecutionProvider"], disabled_optimizers=list(without)
        )

    call_apart(write, "onnxruntime")


def _open(model: Serialised, integers: bool) -> _LimitedSession:
    if not integers:
        return _session(model, None)
    if platform.machine() == "x86_64" and not _has_vnni():
        # On x86 without VNNI, u8 x s8 products saturate in int16, so weights become u8. Where data is s8, products
        # would be s8 x u8, for which onnxruntime has no kernels: data in QDQ form becomes u8, too, and sums of s8 x
        # s8 products outside of QDQ form do not saturate.
        for settings in (_SIGNED_DATA | _UNSIGNED_WEIGHTS, _UNSIGNED_WEIGHTS):
            try:
                return _session(model, settings | _FLOAT32)
            except NotImplemented:
                continue
    return _session(model, _SIGNED_DATA | _FLOAT32)


# Without this option, onnxruntime on x86 computes s8 convolutions in float, or as u8.
_SIGNED_DATA = {"session.qdqisint8allowed": "1"}
_UNSIGNED_WEIGHTS = {"session.x64quantprecision": "1"}
# By default onnxruntime rounds the data of a product with 4-bit weights to 8 bits, which the model does not define.
_FLOAT32 = {"session.qdq_matmulnbits_accuracy_level": "1"}


def _session(model: Serialised, settings: Mapping[str, str] | None) -> _LimitedSession:
    """Return a session with these settings and all graph optimisations; with neither if `settings` is None."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = _FATAL
    if settings is None:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, value in (settings or {}).items():
        options.add_session_config_entry(name, value)
    held = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in model.weights.values()]
    options.add_external_initializers(list(model.weights), held)
    session = onnxruntime.InferenceSession(model.model, options, providers=["CPUExecutionProvider"])
    return _LimitedSession(session, model.model)


Job = tuple[bytes, list[npt.NDArray[Any]]]
"""A serialised model of one output, and its inputs."""

Shown = tuple[str, tuple[int, ...]] | None
"""Dtype and shape of the output, or None where onnxruntime cannot run the model."""


_Job = tuple[Sequence[str] | None, Mapping[str, npt.NDArray[Any]]] | None
"""Names of the outputs to compute, with the inputs; None asks for the names of the arguments."""


class OneOutput:
    """Runs a model with one output in a worker process, which is terminated when a run takes too long."""

    def __call__(self, job: Job, /) -> Shown:
        """Return dtype and shape of a model's output."""
        try:
            (array,) = run_onnxruntime(*job, integers=False)
        except REFUSALS:
            return None
        return array.dtype.name, array.shape

    def close(self) -> None:
        """Do nothing; onnxruntime runs in the worker process itself."""


def _has_vnni() -> bool:
    return "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
