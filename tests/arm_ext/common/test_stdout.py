# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - what is printed is what is tested
import os
import subprocess
import sys
from threading import Barrier, Thread

import pytest

from arm_ext.common.stdout import stdout_as_stderr


def test_all_that_is_printed_inside_goes_to_stderr(capfd: pytest.CaptureFixture[str]):
    with stdout_as_stderr():
        print("python")
        with stdout_as_stderr():
            sys.stdout.flush()
            os.write(1, b"native\n")
        subprocess.run(["echo", "process"], check=True)
    print("result")
    out, err = capfd.readouterr()
    assert out == "result\n"
    assert sorted(err.split()) == ["native", "process", "python"]


def test_contexts_may_overlap_in_threads(capfd: pytest.CaptureFixture[str]):
    both, one = Barrier(2), Barrier(2)

    def first() -> None:
        with stdout_as_stderr():
            both.wait()
        one.wait()

    def second() -> None:
        with stdout_as_stderr():
            both.wait()
            one.wait()
            print("still inside")

    threads = [Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("result")
    assert capfd.readouterr() == ("result\n", "still inside\n")
