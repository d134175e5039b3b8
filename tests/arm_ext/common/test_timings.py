# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from arm_ext.common.timings import child_section, section, whole_process


def _spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_sections_nest_and_add_up_over_threads() -> None:
    def beside() -> None:
        with section("beside"), section("inner"):
            _spin(0.05)

    with whole_process("before") as whole, ThreadPoolExecutor(1) as pool:
        done = pool.submit(copy_context().run, beside)
        for _ in range(2):
            with section("here"):
                _spin(0.05)
                time.sleep(0.1)  # waiting costs nothing
        done.result()
    assert {(depth, name) for depth, name, _ in whole.rows()} == {
        (0, "before"),
        (0, "here"),
        (0, "beside"),
        (1, "inner"),
    }
    here, besides = whole.parts["here"].seconds, whole.parts["beside"]
    assert 0.1 <= here < 0.2
    assert 0.05 <= besides.parts["inner"].seconds <= besides.seconds < 0.15
    assert whole.seconds >= whole.parts["before"].seconds + here + besides.seconds


def test_a_process_counts_for_the_section_around_it() -> None:
    code = "import time\nwhile time.process_time() < 0.1: pass"
    with whole_process("before") as whole, section("tool"), child_section("child"):
        subprocess.run([sys.executable, "-c", code], check=True)
    tool = whole.parts["tool"]
    assert 0.05 <= tool.parts["child"].seconds <= tool.seconds  # the system counts in ticks


def test_nothing_is_recorded_unless_asked_for() -> None:
    with section("alone"), child_section("child"):
        pass
    with whole_process("before") as whole:
        pass
    assert list(whole.parts) == ["before"]
