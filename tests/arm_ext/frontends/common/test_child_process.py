# SPDX-License-Identifier: Apache-2.0
"""Functions in processes of their own: answers, exceptions, and deaths that the caller survives."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.child_process import Apart, DiedError, Pool, call_apart
from arm_ext.frontends.onnx.reference import reference
from arm_ext.frontends.onnx.weights import Serialised
from arm_ext.quantization.session import TensorSession


def counting() -> Callable[[int], int]:
    total = [0]

    def add(number: int) -> int:
        total[0] += number
        return total[0]

    return add


def test_a_function_keeps_its_state_and_its_process():
    apart = Apart(counting, "a runtime")
    assert [apart(1), apart(2)] == [1, 3]
    process = Path(f"/proc/{apart._pid}")
    assert process.exists()
    del apart
    assert not process.exists()


def test_arrays_are_shared_and_not_sent():
    held = np.arange(1 << 20)
    assert call_apart(lambda: int(held.sum()), "a runtime") == held.sum()


def test_exceptions_are_the_functions():
    class Local(Exception):  # noqa: N818
        """One that cannot be pickled."""

    def fail(error: Exception) -> None:
        raise error

    with pytest.raises(ModelError, match="no such layer"):
        call_apart(lambda: fail(ModelError("no such layer")), "a runtime")
    with pytest.raises(RuntimeError, match="of a kind of its own"):
        call_apart(lambda: fail(Local("of a kind of its own")), "a runtime")


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "it ended its process with SIGSEGV"),
        (
            lambda: os.kill(os.getpid(), signal.SIGFPE),
            "it divides an integer by 0, or the smallest integer by -1",
        ),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "it was killed, as the system does when memory ends"),
        (
            lambda: (os.write(2, b"\nIt says why\n"), os.abort()),
            r"it ended its process with SIGABRT \(It says why\)",
        ),
        (
            lambda: (os.write(2, b"terminate called\n  what():  std::bad_alloc\n"), os.abort()),
            "there is not enough memory here",
        ),
        (lambda: os._exit(3), "it ended its process with exit code 3"),
    ],
)
def test_how_a_process_ended_is_told(end: Callable[[], object], why: str, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(DiedError, match=f"^{why}$"):
        call_apart(end, "a runtime")
    assert capfd.readouterr() == ("", "")


def test_one_that_died_says_so_again():
    apart: Apart[int, int] = Apart(lambda: os._exit, "a runtime")
    for _ in range(2):
        with pytest.raises(DiedError):
            apart(3)


def test_no_process_outlives_a_parent_that_is_killed():
    program = (
        "import os, time; from arm_ext.frontends.common.child_process import Apart; "
        "child = Apart(lambda: time.sleep, 'a runtime'); child._begin(60); "
        "print(child._pid, flush=True); os.kill(os.getpid(), 9)"
    )
    parent = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    process = Path(f"/proc/{int(parent.stdout)}")
    deadline = time.monotonic() + 5
    while process.exists() and "\nState:\tZ" not in (process / "status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_calls_what_it_would_start_a_process_for_itself():
    def nested() -> list[int]:
        inner = Apart(lambda: lambda _: os.getpid(), "a runtime")
        inner.close()
        return [os.getpid(), inner(None)]

    ours, inner = call_apart(nested, "a runtime")
    assert ours == inner
    assert ours != os.getpid()


def test_a_pool_answers_in_the_order_of_the_jobs():
    pool: Pool[int, tuple[int, int]] = Pool(lambda: lambda job: (job, os.getpid()), "a runtime", 3)
    answers = pool.map(range(20))
    assert [job for job, _ in answers] == list(range(20))
    assert {process for _, process in answers} <= {worker._pid for worker in pool._workers}
    assert pool.map([]) == []
    pool.close()


@pytest.mark.parametrize(("bad", "error"), [(5, ZeroDivisionError), (6, DiedError)])
def test_a_pool_is_closed_by_a_job_that_fails(bad: int, error: type[Exception]):
    def work(job: int) -> float:
        time.sleep(0.01)
        if job == 6:
            os._exit(3)
        return 1 / (job - 5)

    pool: Pool[int, float] = Pool(lambda: work, "a runtime", 2)
    with pytest.raises(error):
        pool.map([0, bad, 1])
    pool.close()


def fatal() -> onnx.ModelProto:
    """Return a model whose DFT's axis is left out by an empty name, at which onnxruntime reads address 0."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, last])
        for name, last in (("x", 1), ("y", 2))
    )
    length = helper.make_tensor("length", TensorProto.INT64, [], [8])
    node = helper.make_node("DFT", ["x", "length", ""], ["y"], name="dft")
    graph = helper.make_graph([node], "fatal", [x], [y], [length])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def test_a_model_that_ends_onnxruntime():
    x = np.ones((1, 8, 1), np.float32)
    outputs, why = reference(Serialised(fatal().SerializeToString()), [x])
    if outputs:  # by an onnxruntime without this fault
        return
    assert why.endswith(" crashes when it runs the model: it ended its process with SIGSEGV")
    with pytest.raises(ModelError, match="m: onnxruntime cannot run it: it ended its process with SIGSEGV"):
        TensorSession(fatal(), "m", ["y"])({"x": x})
