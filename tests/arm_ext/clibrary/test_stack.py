# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from arm_ext.clibrary.stack import stack_bound
from arm_ext.common.errors import InternalError
from arm_ext.target.toolchain import zig


def bound(tmp_path: Path, *sources: str) -> int:
    objects = []
    for source in sources:
        (tmp_path / "f.S").write_text(source)
        zig(["cc", "-target", "aarch64-linux-gnu.2.28", "-c", tmp_path / "f.S", "-o", tmp_path / "f.o"])
        objects.append((tmp_path / "f.o").read_bytes())
    return stack_bound(*objects)


def function(name: str, *lines: str) -> str:
    body = "\n".join(f"    {line}" for line in (*lines, "ret"))
    return f"    .globl {name}\n    .type {name}, %function\n{name}:\n{body}\n    .size {name}, . - {name}\n"


LEAF = function(
    "leaf", "sub sp, sp, #1, lsl #12", "sub sp, sp, #32", "add sp, sp, #32", "add sp, sp, #1, lsl #12"
)


def test_the_deepest_chain_of_calls_counts(tmp_path: Path) -> None:
    top = function("top", "stp x29, x30, [sp, #-16]!", "bl leaf", "bl memcpy", "ldp x29, x30, [sp], #16")
    other = function("other", "str x19, [sp, #-48]!", "ldr x19, [sp], #48")
    assert bound(tmp_path, LEAF + top + other) == 4096 + 32 + 16
    assert bound(tmp_path, top, LEAF + other) == 4096 + 32 + 16


def test_a_frame_of_unknown_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="grow: the stack pointer changes"):
        bound(tmp_path, function("grow", "sub sp, sp, x0"))


def test_a_call_by_a_pointer_is_of_any_task(tmp_path: Path) -> None:
    task = function("task_0", "sub sp, sp, #64", "add sp, sp, #64")
    share = function("share", "stp x29, x30, [sp, #-16]!", "blr x0", "ldp x29, x30, [sp], #16")
    assert bound(tmp_path, task + share) == 64 + 16


def test_recursion_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="again is recursive"):
        bound(tmp_path, function("again", "bl again"))
