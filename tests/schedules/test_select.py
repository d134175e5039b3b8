# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from schedules.composites.workload import Workload
from schedules.cores import CORES, Core
from schedules.kernels.gemm import gemm_f32
from schedules.select import KERNELS, Choice, Known, Rejected, kernel_named, select
from tests.schedules.float_cases import conv2d
from tests.schedules.programs import linear

CORE = CORES["cortex-a76"]
WORKLOAD = linear(31, 9, 8)


def test_choice_carries_the_kernels_own_parameters_estimate_and_reason():
    choice = select(WORKLOAD, CORE)
    assert isinstance(choice, Choice)
    assert choice.kernel == "gemm_f32"
    assert choice.params == gemm_f32.default(WORKLOAD, CORE)
    assert choice.estimate == gemm_f32.estimate(WORKLOAD, choice.params, CORE)
    assert choice.reason == "float32 product 31 x 8 x 9"


def test_other_kernels_come_with_their_parameters_and_estimates():
    workload = conv2d((1, 28, 28, 64), 64, (3, 3), ("bias",), padding=(1, 1, 1, 1))
    choice = select(workload, CORE)
    assert isinstance(choice, Choice)
    assert (choice.kernel, choice.others[0].kernel) == ("winograd_f32", "gemm_f32")
    other = choice.others[0]
    assert other.estimate == gemm_f32.estimate(workload, other.params, CORE)
    assert other.estimate > choice.estimate
    without = select(workload, CORE, without=["winograd_f32"])
    assert isinstance(without, Choice)
    assert (without.kernel, without.params) == ("gemm_f32", other.params)


def test_all_that_was_considered_is_kept_the_cheapest_first():
    workload = conv2d((1, 28, 28, 64), 64, (3, 3), ("bias",), padding=(1, 1, 1, 1))
    choice = select(workload, CORE, without=["winograd_f32"])
    assert isinstance(choice, Choice)
    assert {option.kernel for option in choice.others} == {"gemm_f32"}
    candidates = [p for p in gemm_f32.candidates(workload, CORE) if p != choice.params]
    assert len(candidates) > 3
    assert {option.params for option in choice.others} == set(candidates)
    estimates = [option.estimate for option in choice.others]
    assert estimates == sorted(estimates)


def test_every_kernel_says_why_it_does_not_take_a_workload():
    answer = select(dataclasses.replace(WORKLOAD, output_dtype="float16"), CORE)
    assert isinstance(answer, Rejected)
    assert [rejection.asked for rejection in answer.rejections] == [kernel.NAME for kernel in KERNELS]
    assert all(r.reason and r.limit and r.actual for r in answer.rejections)


def test_a_kernel_of_other_composites_is_told_from_one_whose_limits_fail():
    choice = select(WORKLOAD, CORE)
    assert isinstance(choice, Choice)
    others = {rejection.asked for rejection in choice.rejected if rejection.unfit}
    assert {"softmax_f32", "attention_f32", "gemm_s8_sdot"} <= others
    workload = conv2d((1, 9, 9, 3), 8, (3, 3))
    choice = select(workload, CORE)
    assert isinstance(choice, Choice)
    assert {r.asked: r.reason for r in choice.rejected if not r.unfit} == {
        "winograd_f32": "channels are not in fours"
    }


def test_look_up_overrules():
    known = gemm_f32.Params(1, 4, 1, parallel=False)
    choice = select(WORKLOAD, CORE, lambda workload, core: Known(known, "a note") if core is CORE else None)
    assert isinstance(choice, Choice)
    assert choice.params == known
    assert choice.estimate == gemm_f32.estimate(WORKLOAD, known, CORE)
    assert choice.reason.endswith("; by a note")
    assert choice.known == "a note"


def test_look_up_that_knows_nothing_changes_nothing():
    assert select(WORKLOAD, CORE, lambda *_: None) == select(WORKLOAD, CORE)


def test_look_up_that_names_no_kernel_of_this_workload():
    with pytest.raises(ValueError, match="returned 'fast', but only"):
        select(WORKLOAD, CORE, lambda *_: Known("fast", ""))


def test_kernels_are_found_by_name():
    assert [kernel_named(kernel.NAME) for kernel in KERNELS] == list(KERNELS)


class Cheaper:
    """gemm_f32 under another name, by half its estimate."""

    NAME = "cheaper"
    Params = gemm_f32.Params
    matches, default = staticmethod(gemm_f32.matches), staticmethod(gemm_f32.default)
    candidates, pack, build = map(staticmethod, (gemm_f32.candidates, gemm_f32.pack, gemm_f32.build))

    @staticmethod
    def estimate(workload: Workload, params: gemm_f32.Params, core: Core) -> float:
        return gemm_f32.estimate(workload, params, core) / 2


def test_a_kernel_from_outside_is_chosen_among_ours():
    kernel = Cheaper()
    choice = select(WORKLOAD, CORE, more=[kernel])
    assert isinstance(choice, Choice)
    assert (choice.kernel, choice.others[0].kernel) == ("cheaper", "gemm_f32")
    assert kernel_named("cheaper", [kernel]) is kernel
    ours = select(WORKLOAD, CORE)
    assert isinstance(ours, Choice)
    assert ours.kernel == "gemm_f32"
