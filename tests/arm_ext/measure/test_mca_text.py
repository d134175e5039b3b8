# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.measure.mca_text import mca_text
from tests.arm_ext.measure.a64 import words


@pytest.mark.parametrize(
    ("load", "lines"),
    [
        ("ldr q0, [x0], #0x10", ["ldr q0, [x0]", "add x0, x0, #16"]),
        ("ldr q0, [x0, #0x10]!", ["add x0, x0, #16", "ldr q0, [x0]"]),
        ("ldp q0, q1, [x0], #-0x20", ["ldp q0, q1, [x0]", "sub x0, x0, #32"]),
        ("ldp x0, x1, [sp, #0x20]!", ["add sp, sp, #32", "ldp x0, x1, [sp]"]),
        ("ld1 {v0.4s, v1.4s}, [x0], #32", ["ld1 {v0.4s, v1.4s}, [x0]", "add x0, x0, #32"]),
        ("ldrsw x0, [x1], #4", ["ldrsw x0, [x1]", "add x1, x1, #4"]),
    ],
)
@pytest.mark.parametrize("cpu", ["neoverse-n2", "cortex-a55"])
def test_a_load_with_write_back_is_a_load_and_an_addition(cpu: str, load: str, lines: list[str]) -> None:
    assert mca_text(words(load), cpu) == tuple(lines)


@pytest.mark.parametrize(
    ("store", "lines"),
    [
        ("str q0, [x0], #0x10", ["str q0, [x0]", "add x0, x0, #16"]),
        ("stp x29, x30, [sp, #-0x10]!", ["sub sp, sp, #16", "stp x29, x30, [sp]"]),
        ("st1 {v0.d}[1], [x0], #8", ["st1 {v0.d}[1], [x0]", "add x0, x0, #8"]),
    ],
)
def test_a_store_with_write_back_is_split_in_the_models_that_let_it_wait(
    store: str, lines: list[str]
) -> None:
    assert mca_text(words(store), "neoverse-n1") == tuple(lines)
    assert mca_text(words(store), "cortex-a55") == (store,)


@pytest.mark.parametrize("text", ["casal x0, x1, [x2]"])
def test_atomics_stay(text: str) -> None:
    assert mca_text(words(text), "neoverse-n2") == (text,)


@pytest.mark.parametrize(
    ("load", "lines"),
    [
        ("ld1 {v0.d}[1], [x0]", ["ldr d31, [x0]", "mov v0.d[1], v31.d[0]"]),
        ("ld1 {v0.d}[1], [x0], x3", ["ldr d31, [x0]", "mov v0.d[1], v31.d[0]", "add x0, x0, x3"]),
        (
            "ld3 {v0.b, v1.b, v2.b}[2], [x0], #3",
            [
                "ldr s31, [x0]",
                *(f"mov v{i}.b[2], v31.b[0]" for i in range(3)),
                "add x0, x0, #3",
            ],
        ),
    ],
)
def test_a_lane_load_is_a_load_and_insertions(load: str, lines: list[str]) -> None:
    assert mca_text(words(load), "neoverse-n2") == tuple(lines)


def test_a_lane_load_stays_where_the_model_prices_insertions_worse() -> None:
    assert mca_text(words("ld1 {v0.d}[1], [x0]"), "cortex-a72") == ("ld1 {v0.d}[1], [x0]",)
    assert mca_text(words("ld1 {v0.d}[1], [x0], x3"), "cortex-a55") == (
        "ld1 {v0.d}[1], [x0]",
        "add x0, x0, x3",
    )


def test_a_split_lane_load_takes_a_register_that_the_block_leaves_free() -> None:
    # fmla v31.4s, v30.4s, v29.4s
    lines = mca_text((0x4E3DCFDF, *words("ld1 {v0.d}[1], [x0]")), "neoverse-n2")
    assert lines == ("fmla v31.4s, v30.4s, v29.4s", "ldr d28, [x0]", "mov v0.d[1], v28.d[0]")


def test_a_call_is_a_jump() -> None:
    assert mca_text(words("bl #0xffffffffffffffc0", "blr x8"), "neoverse-n2") == (
        "b #0xffffffffffffffc0",
        "br x8",
    )
    assert mca_text(words("ret", "b.eq #0x10"), "neoverse-n2") == ("ret", "b.eq #0x10")
