# SPDX-License-Identifier: Apache-2.0
import errno

import pytest

from arm_ext.board.call_times import Watch
from arm_ext.common.errors import EnvError

RUNS = """\
a 100 150 7
b 160 400 9
a 1000 1040 6
b 1050 1300 8
a 2000 2060 5
b 2070 2300 4
"""


def test_times_leave_out_the_first_run_and_the_clock() -> None:
    watch = Watch.parse("overhead 20\ncounters cycles")
    a, b = watch.calls(RUNS, 3)
    assert (a.symbol, b.symbol) == ("a", "b")
    assert a.seconds == pytest.approx((20e-9, 40e-9))
    assert b.seconds == pytest.approx((230e-9, 210e-9))
    assert a.counters == {"cycles": (6, 5)}


def test_runs_with_other_calls_are_refused() -> None:
    with pytest.raises(EnvError, match="different kernels"):
        Watch.parse("overhead 20\ncounters").calls(RUNS.replace("b 2070", "c 2070"), 3)


@pytest.mark.parametrize(
    ("number", "said"), [(errno.EACCES, "perf_event_paranoid"), (errno.ENOENT, "virtual machines")]
)
def test_counters_that_cannot_be_read_say_why(number: int, said: str) -> None:
    watch = Watch.parse(f"overhead 20\ncounters errno {number}")
    assert watch.counters == ()
    assert said in watch.without_counters
