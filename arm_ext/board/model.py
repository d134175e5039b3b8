# SPDX-License-Identifier: Apache-2.0
"""A model.so on a board: run it, time it, count its instructions."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from pydantic import ValidationError
from tvm.runtime.vm import VirtualMachine

from arm_ext.board.call_times import TimedCall, Watch
from arm_ext.board.session import BoardSession
from arm_ext.common.errors import EnvError, ModelError, UsageError
from arm_ext.common.npu_status import STATUS, NpuStatus
from arm_ext.common.trace import ModelCode, Trace, code_ranges

_MAIN, _STEP, _RESET = "main", "step", "reset"
# Number of warm-up inferences before counting: the first ones split fresh heap memory, which takes some 3000 more
# instructions in malloc.
_COUNT_WARMUP = 3
# The first inference between the plugin's marks only fills its caches.
_COUNTED = 2
# Maximum number of kernel calls in an inference, as of a graph of 2,000 nodes in a loop of 10 iterations.
_MOST_CALLS = 20_000
_CLOSURE = "arm_ext_main"  # name of `main` or `step` with bound inputs, for the timer


class LoadedModel:
    """A loaded model; ends with its session.

    Attributes:
        session: The session that the model is loaded in.
    """

    def __init__(
        self, session: BoardSession, so: Path, sha256: str = "", *, dump: Path | None, emulated: bool
    ) -> None:
        """Upload and load `so`.

        Args:
            session: A fresh session, which the model owns from now on.
            so: Path of model.so.
            sha256: SHA-256 that its bytes must have; any by default.
            dump: File that the counting plugin of the board writes; None for a board that does not count.
            emulated: Whether times taken there mean nothing.
        """
        self.session = session
        self._dump = dump
        self._emulated = emulated
        self._watching: tvm.runtime.Module | None = None
        self._maps_text: str | None = None
        self._module = session.load(so, sha256)
        self._code = None if dump is None else ModelCode.read(so)
        try:
            with session.guard():
                self._vm = VirtualMachine(self._module, session.device())
        except AttributeError as error:
            raise ModelError("it is a shared library, but not a model compiled by TVM") from error

    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Run one inference.

        Args:
            inputs: Inputs in the model's order, with its shapes and dtypes.

        Returns:
            The outputs in the model's order.

        Raises:
            ModelError: The model refuses the inputs.
            EnvError: The board went away, lacks an instruction, or the session's time is over.
        """
        return self._call(_MAIN, inputs)

    def step(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Run one inference of a model with states, which the board keeps for the next one.

        Args:
            inputs: As for `run`, without the states.

        Returns:
            The outputs without the states; the states where nothing else is an output.

        Raises:
            ModelError, EnvError: As for `run`.
        """
        return self._call(_STEP, inputs)

    def reset(self) -> None:
        """Make the next step the first.

        Raises:
            EnvError: As for `run`.
        """
        self._call(_RESET, [])

    def time(
        self, inputs: Sequence[npt.NDArray[Any]], *, repeats: int, warmup: int, steps: bool = False
    ) -> list[float]:
        """Time inferences on the board itself, without the transfer of inputs and outputs.

        Args:
            inputs: As for `run`, or for `step`.
            repeats: How many inferences are timed.
            warmup: How many run before, at least one.
            steps: Whether inferences are steps of a model with states.

        Returns:
            Seconds of each timed inference.

        Raises:
            UsageError: The board is emulated.
            EnvError: As for `run`.
        """
        self._require_real()
        return self._evaluate(inputs, repeats, warmup, steps)

    def count(self, inputs: Sequence[npt.NDArray[Any]], *, steps: bool = False) -> Trace:
        """Count the instructions of one warm inference.

        Args:
            inputs: As for `run`, or for `step`.
            steps: Whether the inference is a step of a model with states.

        Raises:
            UsageError: The board does not count.
            EnvError: As for `run`.
        """
        code = self._counted_code()
        self._evaluate(inputs, _COUNTED, _COUNT_WARMUP, steps)
        assert self._dump is not None
        return Trace.parse(self._dump, self._maps(), code)

    def _counted_code(self) -> ModelCode:
        if self._code is None:
            raise UsageError("this board does not count instructions; use --board virtual")
        return self._code

    def count_calls(self, inputs: Sequence[npt.NDArray[Any]], *, steps: bool = False) -> Trace:
        """Count the instructions of one warm inference, separately for each kernel call.

        Args:
            inputs: As for `run`, or for `step`.
            steps: Whether the inference is a step of a model with states.

        Raises:
            EnvError: As for `run`; `counted_so_far` then returns the calls that had ended.
        """
        watch = self.session.function("arm_ext.board.watch_region")
        maps = self._maps()
        for each in code_ranges(maps, self._counted_code()):
            with self.session.guard():
                watch(each.begin, each.end)
        self._maps_text = maps
        return self.count(inputs, steps=steps)

    def counted_so_far(self) -> Trace | None:
        """Return the calls that had ended when `count_calls` was interrupted.

        None if there are none, or if unreadable.
        """
        if self._dump is None or self._maps_text is None or self._code is None:
            return None
        try:
            trace = Trace.parse(self._dump, self._maps_text, self._code, complete=False)
        except EnvError:
            return None
        return trace if any(section.symbol for section in trace.sections) else None

    def time_calls(
        self,
        inputs: Sequence[npt.NDArray[Any]],
        module: Path,
        kernels: Sequence[str],
        *,
        runs: int,
        counters: bool = False,
        steps: bool = False,
    ) -> tuple[Watch, list[TimedCall]]:
        """Time each kernel call of warm inferences on the board itself.

        Args:
            inputs: As for `run`, or for `step`.
            module: The module that times calls, for the board's machine (`call_times_module`).
            kernels: Symbols of the kernels to time; calls of other functions are counted in no kernel's time.
            runs: How many inferences are timed.
            counters: Whether to read hardware counters, which makes the times longer.
            steps: Whether inferences are steps of a model with states.

        Returns:
            The overhead of timing, and the calls in order.

        Raises:
            UsageError: The board is emulated.
            EnvError: As for `run`; or the runs called different kernels.
        """
        self._require_real()
        # Load the watcher only once: a second upload would overwrite the file that is loaded.
        self._watching = watching = self._watching or self.session.load(module)
        with self.session.guard():
            # The evaluator runs the function once more before it starts the clock.
            self._vm.save_function(
                _STEP if steps else _MAIN, _CLOSURE, *self._upload(inputs), include_return=False
            )
            self._vm[_CLOSURE]()
            capacity = (runs + 1) * _MOST_CALLS
            names = "".join(f"{kernel}\n" for kernel in kernels)
            watch = Watch.parse(str(watching["arm_ext_calls_watch"](names, capacity, int(counters))))
            self._vm.time_evaluator(_CLOSURE, self.session.device(), number=1, repeat=runs)()
            text = str(watching["arm_ext_calls_read"]())
        return watch, watch.calls(text, runs + 1)

    def _require_real(self) -> None:
        if self._emulated:
            raise UsageError(
                "the board is emulated, and its times mean nothing; count instructions with --board virtual"
            )

    def _maps(self) -> str:
        maps = self.session.function("arm_ext.board.maps")
        with self.session.guard():
            return str(maps())

    def npu_status(self) -> NpuStatus:
        """Return where the model's NPU regions, if any, were computed since it was loaded.

        Raises:
            EnvError: As for `run`.
        """
        with self.session.guard():
            status = self._module.get_function(STATUS, query_imports=True)
            text = str(status())
        try:
            return NpuStatus.model_validate_json(text)
        except ValidationError as error:
            raise ModelError("model.so returns no status of its NPU regions that can be read") from error

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    def _call(self, function: str, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        with self.session.guard():
            self._vm.set_input(function, *self._upload(inputs))
            self._vm.invoke_stateful(function)
            return [tensor.numpy() for tensor in _flat(self._vm.get_outputs(function))]

    def _evaluate(
        self, inputs: Sequence[npt.NDArray[Any]], repeats: int, warmup: int, steps: bool
    ) -> list[float]:
        with self.session.guard():
            function = _STEP if steps else _MAIN
            self._vm.save_function(function, _CLOSURE, *self._upload(inputs), include_return=False)
            for _ in range(warmup - 1):
                self._vm[_CLOSURE]()
            # The evaluator itself runs the function once before it starts the clock.
            evaluate = self._vm.time_evaluator(_CLOSURE, self.session.device(), number=1, repeat=repeats)
            return [float(seconds) for seconds in evaluate().results]

    def _upload(self, inputs: Sequence[npt.NDArray[Any]]) -> list[tvm.runtime.Tensor]:
        device = self.session.device()
        # np.ascontiguousarray would turn a scalar into a vector.
        return [tvm.runtime.tensor(np.asarray(value, order="C"), device) for value in inputs]


def _flat(outputs: object) -> Iterator[tvm.runtime.Tensor]:
    if isinstance(outputs, tuple):
        for output in outputs:
            yield from _flat(output)
    elif isinstance(outputs, tvm.runtime.Tensor):
        yield outputs
    else:
        raise ModelError(f"the model returns {type(outputs).__name__}, which is not a tensor")
