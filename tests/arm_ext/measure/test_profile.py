# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from arm_ext.common.trace import Trace, TranslationBlock
from arm_ext.measure.classify import InsnClass
from arm_ext.measure.mca import find_mca
from arm_ext.measure.profile import CountReport, profile
from schedules.cores import CORES
from schedules.kernels.common.cost_model import L2_BYTES_PER_CYCLE, MEMORY_BYTES_PER_CYCLE
from tests.arm_ext.measure.a64 import words

pytestmark = pytest.mark.usefixtures("mca_cache")

CORE = CORES["cortex-a76"]
SDOT = "sdot v0.4s, v1.16b, v2.4b[3]"
TRACE = Trace(
    (
        TranslationBlock(
            0x1000, 1, words("ldp x0, x1, [sp, #0x20]!", "bl #0xffffffffffffffc0"), "model.so", "conv"
        ),
        TranslationBlock(
            0x2000, 31, words(SDOT, SDOT, "ldr q0, [x0], #0x10", "b.eq #0x10"), "model.so", "conv"
        ),
        TranslationBlock(0x3000, 9, words("smlal v0.4s, v1.4h, v2.4h", "ret"), "model.so", "dense"),
        TranslationBlock(0x9000, 8, words("nop", "ret"), "libc", "libc"),
    ),
    base=0x1000,
    by_thread={"conv": (126,), "dense": (18,)},
)
INSTRUCTIONS = 2 + 31 * 4 + 9 * 2 + 8 * 2


def report(misses: tuple[int, int] | None = None) -> CountReport:
    return profile(replace(TRACE, misses=misses), CORE, find_mca(), macs=4000)


def test_totals() -> None:
    found = report()
    assert found.instructions == INSTRUCTIONS
    assert found.macs_per_instruction == 4000 / INSTRUCTIONS
    assert found.mac_share == (62 + 9) / INSTRUCTIONS
    assert found.classes == {
        InsnClass.SDOT: 62 / INSTRUCTIONS,
        InsnClass.BRANCH: (1 + 31 + 9 + 8) / INSTRUCTIONS,
        InsnClass.VECTOR_LOAD: 31 / INSTRUCTIONS,
        InsnClass.INTEGER_MLA: 9 / INSTRUCTIONS,
        InsnClass.SCALAR: 8 / INSTRUCTIONS,
        InsnClass.SCALAR_LOAD: 1 / INSTRUCTIONS,
    }
    assert list(found.classes.values()) == sorted(found.classes.values(), reverse=True)
    assert found.unmodelled_share == 0


def test_rows_add_up_and_are_sorted() -> None:
    rows = report().symbols
    assert [(row.symbol, row.image, row.instructions) for row in rows] == [
        ("conv", "model.so", 126),
        ("dense", "model.so", 18),
        ("libc", "libc", 16),
    ]
    assert [row.mac_share for row in rows] == [62 / 126, 0.5, 0]
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert sum(row.estimated_cycles for row in rows) == pytest.approx(
        report().estimated_cycles, abs=len(rows)
    )


def test_the_estimate_names_its_core_and_its_model() -> None:
    found = report()
    assert found.core == "cortex-a76"
    # LLVM has no model of the A76 of its own: it uses the narrower A57's.
    assert found.model == f"neoverse-n1 of llvm-mca {find_mca().version}"
    assert found.symbols[0].estimated_cycles >= found.symbols[0].instructions / CORE.issue_width
    assert "no time" in found.note


def test_cycles_with_caches_add_what_l1_and_l2_fetch() -> None:
    none, some = report(), report((10, 3))
    assert (none.l2_bytes, none.memory_bytes) == (0, 0)
    assert none.cycles_with_caches == none.estimated_cycles
    assert (some.l2_bytes, some.memory_bytes) == (640, 192)
    fetching = 640 / L2_BYTES_PER_CYCLE + 192 / MEMORY_BYTES_PER_CYCLE
    assert some.cycles_with_caches - some.estimated_cycles == pytest.approx(fetching, abs=1)


def test_the_json_reads_back() -> None:
    found = report()
    assert CountReport.model_validate_json(found.model_dump_json()) == found
    assert found.schema_version == 2
