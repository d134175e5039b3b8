# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.trace import TranslationBlock
from arm_ext.measure.cycles import block_costs
from arm_ext.measure.false_dependency import read_anew, repeats
from arm_ext.measure.mca import find_mca
from schedules.cores import CORES
from tests.arm_ext.measure.a64 import words

SCALED = ("fmul v2.4s, v1.4s, v0.4s", "fcvtns v2.4s, v2.4s", "sqxtn v1.4h, v2.4s")


# Four instructions backwards.
BACK = "cbz x0, #0xfffffffffffffff0"


@pytest.mark.parametrize(
    ("code", "loops"),
    [
        (["nop"] * 4 + [BACK], True),
        (["nop"] * 5 + [BACK], True),
        (["nop"] * 3 + [BACK], False),
        (["nop"] * 4 + ["b.eq #0x10"], False),
        (["nop", "ret"], False),
    ],
)
def test_a_loop_ends_with_a_branch_into_itself(code: list[str], loops: bool) -> None:
    assert repeats(words(*code)) is loops


def test_what_is_read_first_comes_from_a_register_that_is_never_written() -> None:
    lines = (*SCALED, "ldp q3, q4, [x0]", "str q3, [x1]", "fcmp s5, s3")
    assert read_anew(("fadd v6.4s, v3.4s, v5.4s", *lines)) == (
        "fadd v6.4s, v31.4s, v5.4s",
        "fmul v2.4s, v31.4s, v0.4s",
        *lines[1:],
    )


def test_sums_and_what_is_known_stay() -> None:
    lines = ("fmla v1.4s, v2.4s, v3.4s", "mov v4.16b, v1.16b", "add x1, x1, #4", "sqxtn v4.4h, v4.4s")
    assert read_anew(lines) == lines


def test_without_a_register_to_spare_nothing_changes() -> None:
    lines = ("str q7, [x0]", *(f"movi v{number}.4s, #0" for number in range(32)))
    assert read_anew(lines) == lines


@pytest.mark.usefixtures("mca_cache")
def test_the_block_behind_a_loop_does_not_wait_for_its_last_round() -> None:
    def cycles(end: str) -> float:
        block = TranslationBlock(0x1000, 1, words(*SCALED, "nop", end), "model.so", "conv")
        [cost] = block_costs([block], CORES["neoverse-n2"], find_mca())
        return cost.cycles

    # Published latencies of the chain are 3, 4 and 4 cycles. Without it, two conversions share a pipe.
    assert cycles(BACK) > 10
    assert cycles("b.eq #0x10") < 5
