# SPDX-License-Identifier: Apache-2.0
"""The table's arithmetic, on the counts of DS-CNN int8 for a Neoverse N2 as they were recorded once."""

import pytest

from arm_ext.measure.peers.comparison import InferenceCounts, Row, row

MACS = 2_656_768
OURS = InferenceCounts(
    libraries={"model.so": 309_291, "libtvm_runtime": 36_075, "libc": 7_006},
    estimated_cycles=138_818,
    cycles_with_caches=139_500,
)
THEIRS = InferenceCounts(
    libraries={"onnxruntime_pybind11_state": 797_427, "libc": 60_593, "python3.11": 12_481},
    estimated_cycles=326_830,
    cycles_with_caches=341_000,
)


@pytest.fixture
def theirs() -> Row:
    return row(
        "onnxruntime", "1.31.1", THEIRS, ours=OURS, macs=MACS, binary_bytes=26_447_672, weight_bytes=32_077
    )


def test_instructions_are_the_sum_over_libraries(theirs: Row) -> None:
    assert theirs.instructions == 870_501
    assert theirs.libraries == THEIRS.libraries


def test_ratios_are_theirs_over_ours(theirs: Row) -> None:
    assert theirs.instruction_ratio == pytest.approx(870_501 / 352_372)
    assert theirs.cycle_ratio == pytest.approx(341_000 / 139_500)
    assert theirs.macs_per_instruction == pytest.approx(3.052, abs=5e-4)


def test_our_own_ratios_are_one() -> None:
    ours = row("tvm-arm-ext", "0", OURS, ours=OURS, macs=MACS, binary_bytes=1, weight_bytes=2)
    assert (ours.instruction_ratio, ours.cycle_ratio) == (1, 1)
    assert ours.macs_per_instruction == pytest.approx(7.540, abs=5e-4)


def test_a_row_on_several_threads(theirs: Row) -> None:
    scaling = theirs.scaled(385_501, 79_338).scaling
    assert scaling is not None
    assert (scaling.speedup, scaling.ratio) == pytest.approx((2.258, 4.859), abs=5e-4)
    assert theirs.scaled(None, None).scaling is None


def test_a_row_survives_json(theirs: Row) -> None:
    assert Row.model_validate_json(theirs.model_dump_json()) == theirs
