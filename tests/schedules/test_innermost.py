# SPDX-License-Identifier: Apache-2.0
import textwrap

from tests.schedules.innermost import loops


def found(asm: str) -> list[list[str]]:
    return loops(textwrap.dedent(asm))


def test_one_that_ends_in_a_plain_branch_to_its_head():
    # As LLVM has it where the way out is in the middle.
    assert found("""
        kernel:
            mov x8, #9
        .LBB0_1:
            str\tq0, [sp, #16]
            cbz x8, .LBB0_3
        // %bb.2:
            sub x8, x8, #1
            b .LBB0_1
        .LBB0_3:
            ret
    """) == [["str q0, [sp, #16]", "cbz x8, .LBB0_3", "sub x8, x8, #1", "b .LBB0_1"]]


def test_one_with_a_fork_inside():
    assert found("""
        kernel:
        .LBB0_1:
            tbz w9, #0, .LBB0_3
            add x0, x0, #1
        .LBB0_3:
            subs x8, x8, #1
            b.ne .LBB0_1
            ret
    """) == [["tbz w9, #0, .LBB0_3", "add x0, x0, #1", "subs x8, x8, #1", "b.ne .LBB0_1"]]


def test_the_inner_ones_alone():
    assert found("""
        kernel:
        .LBB0_1:
            mov x9, #4
        .LBB0_2:
            subs x9, x9, #1
            b.ne .LBB0_2
        .LBB0_3:
            fmul v0.4s, v0.4s, v1.4s
            cbnz x10, .LBB0_3
            subs x8, x8, #1
            b.ne .LBB0_1
            ret
    """) == [["subs x9, x9, #1", "b.ne .LBB0_2"], ["fmul v0.4s, v0.4s, v1.4s", "cbnz x10, .LBB0_3"]]


def test_one_that_is_entered_in_its_middle():
    assert found("""
        kernel:
            b .LBB0_2
        .LBB0_1:
            add x0, x0, #1
        .LBB0_2:
            cmp x0, x1
            b.lt .LBB0_1
            ret
    """) == [["add x0, x0, #1", "cmp x0, x1", "b.lt .LBB0_1"]]


def test_code_out_of_line_that_goes_back_is_none():
    assert (
        found("""
        first:
            cbz x8, .LBB0_2
        .LBB0_1:
            add x0, x0, #1
            ret
        .LBB0_2:
            mov x0, #1
            b .LBB0_1
        second:
            bl first
            b first
    """)
        == []
    )
