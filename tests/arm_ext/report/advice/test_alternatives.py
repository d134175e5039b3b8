# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.report.advice.alternatives import alternatives, exclude, is_part, merged_options
from tests.arm_ext.report.advice.records import call, kernel_of, profile_of, report_of

PRODUCT = call(0, "conv", "gemm_f32", 0.6, macs=100)
FROM_MEMORY = call(1, "fc", "gemm_f32", 0.3, macs=100, bound="memory")
FLOAT = report_of(*(kernel_of(each, "float", 10) for each in (PRODUCT, FROM_MEMORY)))
INTEGER = call(0, "conv", "gemm_s8_sdot", 0.5, macs=100)
NARROW = call(1, "depthwise", "depthwise_s8", 0.4, macs=10)


def test_float_models_try_what_the_target_has() -> None:
    found = list(
        alternatives(
            profile_of(PRODUCT, FROM_MEMORY), FLOAT, {"dotprod", "fullfp16"}, {"quantize": "s.npz"}, None
        )
    )
    assert [each.options for each in found] == [{"precision": "fp16"}, {"quantize": "s.npz"}]


def test_quantised_models_try_no_precision() -> None:
    report = report_of(kernel_of(INTEGER, "qdq", 10))
    assert (
        list(alternatives(profile_of(INTEGER), report, {"fullfp16", "bf16"}, {"quantize": "s.npz"}, None))
        == []
    )


def test_winograd_is_switched_off_where_it_is() -> None:
    one = call(0, "conv", "winograd_f32", 0.6, macs=100)
    found = list(alternatives(profile_of(one), report_of(kernel_of(one, "float")), (), None, {"tuned": "db"}))
    assert [each.options for each in found] == [{"winograd": False}, {"tuned": "db"}]


@pytest.mark.parametrize(
    ("other", "tried"),
    [
        (("depthwise_s8_patch", 12), ["without depthwise_s8"]),
        (("depthwise_s8_patch", 16), []),  # by its formula, not worth building
        (("depthwise_s8", 11), []),  # other parameters of the same kernel
        (None, []),  # without it, no kernel would take the call
    ],
)
def test_next_best_kernels_of_costly_calls_are_tried(other: tuple[str, int] | None, tried: list[str]) -> None:
    report = report_of(kernel_of(INTEGER, "qdq", 10), kernel_of(NARROW, "qdq", 10, other))
    found = list(alternatives(profile_of(INTEGER, NARROW), report, (), None, None))
    assert [each.name for each in found] == tried


def test_options_that_decide_numbers_exclude_each_other() -> None:
    fp16, int8, plain = {"precision": "fp16"}, {"quantize": "s.npz"}, {"winograd": False}
    assert exclude(fp16, int8)
    assert not exclude(fp16, plain)
    assert merged_options(fp16, plain) == {"precision": "fp16", "winograd": False}


def test_options_together_have_the_kernels_of_both() -> None:
    one, other = {"without-kernel": ["a"]}, {"without-kernel": ["b"]}
    both = merged_options(one, other)
    assert both == {"without-kernel": ["a", "b"]}
    assert is_part(one, both)
    assert is_part(other, both)
    assert not is_part(both, one)
    assert not is_part({"precision": "fp16"}, both)
