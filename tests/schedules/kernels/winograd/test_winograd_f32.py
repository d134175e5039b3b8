# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.workload import Workload
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.common.cost_model import MEMORY_BYTES_PER_CYCLE
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.winograd import winograd_f32, winograd_tiling
from schedules.kernels.winograd.transforms import TAPS, Transform
from schedules.kernels.winograd.winograd_f32 import Params
from schedules.kernels.winograd.winograd_tiling import WinogradPlan
from schedules.select import Choice, select
from tests.schedules.float_cases import HALF_ULP, Case, conv2d
from tests.schedules.programs import BASELINE, Array, model_so

CORE = CORES["neoverse-n2"]
AROUND = (1, 1, 1, 1)
STEPS = ("bias", "residual", "relu")


def same(data: tuple[int, int, int, int], outputs: int, steps: tuple[str, ...] = STEPS) -> Workload:
    return conv2d(data, outputs, (TAPS, TAPS), steps, padding=AROUND)


CASES = [
    (same((1, 7, 9, 8), 12), Params(4, 2, 2, 6)),  # tiles that are cut off below and at the right
    (same((1, 7, 9, 8), 12), Params(2, 3, 2, 20, parallel=True)),
    (same((2, 8, 4, 4), 4), Params(4, 3, 1, 4)),  # whole tiles; a tail of rows
    (
        same((3, 9, 9, 12), 20),
        Params(4, 2, 4, 4, parallel=True),
    ),  # blocks, the last of them smaller, by threads
    (same((3, 9, 9, 12), 20), Params(4, 2, 4, 4)),
    # Sums in the room of the data before, of as many and of fewer channels.
    (same((3, 9, 9, 20), 20), Params(4, 2, 4, 4, parallel=True)),
    (same((3, 9, 9, 20), 12), Params(4, 2, 2, 4, parallel=True)),
    (same((1, 1, 31, 4), 8), Params(4, 1, 1, 8)),
    (same((3, 9, 9, 20), 12, ("bias", "prelu", "residual")), Params(4, 2, 2, 4)),
    (conv2d((1, 6, 6, 8), 8, (TAPS, TAPS)), Params(4, 1, 2, 1)),  # no border, no epilogue
    (conv2d((1, 7, 6, 8), 8, (TAPS, TAPS), ("bias",), padding=(0, 2, 1, 1)), Params(2, 4, 2, 12)),
]


def bound(case: Case, outputs: int) -> Array:
    """The stated bound of each output: the transforms of magnitudes, with a rounding for each step on the way."""
    transform, workload = Transform(outputs), case.workload
    widths = WinogradPlan(workload, Params(outputs, 1, 1, 1)).widths
    x, w = (
        np.pad(np.abs(case.inputs[0].astype(np.float64)), widths),
        np.abs(case.constants[0].astype(np.float64)),
    )
    a, b, g = np.abs(transform.a), np.abs(transform.b), np.abs(transform.g)
    u = np.einsum("ij,ojkc,lk->ilco", g, w, g)
    total = np.zeros(workload.output_shape)
    for y in range(0, total.shape[1], outputs):
        for z in range(0, total.shape[2], outputs):
            d = x[:, y : y + transform.size, z : z + transform.size]
            v = np.einsum("ji,njkc,kl->nilc", b, d, b)
            m = np.einsum("nilc,ilco->nilo", v, u)
            part = np.einsum("ij,nilo,lk->njko", a, m, a)
            inside = total[:, y : y + outputs, z : z + outputs]
            inside[:] = part[:, : inside.shape[1], : inside.shape[2]]
    steps = [step.operand for step in workload.epilogue if step.operand]
    values = {"input": case.inputs, "constant": case.constants}
    for operand in steps:
        total = total + np.abs(values[operand.kind][operand.index].astype(np.float64))
    return (w.shape[3] + 26 + len(steps)) * HALF_ULP * total


@pytest.mark.long  # as on a board, which has all of them, too
@pytest.mark.parametrize("index", range(len(CASES)))
def test_values_are_within_the_stated_bound(index: int):
    workload, params = CASES[index]
    case = Case(workload)
    out = case.on_host(winograd_f32, params)
    assert (np.abs(out - case.expected) <= bound(case, params.outputs)).all()


@pytest.mark.parametrize("outputs", [2, 4])
def test_an_activation_is_of_the_sums(outputs: int):
    data, params = (1, 7, 9, 8), Params(outputs, 2, 2, 6)
    case = Case(same(data, 12, ("bias", "residual")))
    case.workload = same(data, 12, ("bias", "silu", "residual"))
    sums = Case(same(data, 12, ("bias",))).on_host(winograd_f32, params).astype(np.float64)
    silu = sums / (1 + np.exp(-sums))
    out = case.on_host(winograd_f32, params)
    # Four units of the activation, one of the sum with the residual.
    limit = HALF_ULP * (4 * np.abs(silu) + np.abs(out))
    assert (np.abs(out - (silu + case.inputs[1])) <= limit + 2.0**-119).all()


@pytest.mark.parametrize(("outputs", "limit"), [(2, 1e-6), (4, 4e-6)])
def test_error_relative_to_the_largest_output(outputs: int, limit: float):
    case = Case(same((1, 8, 8, 256), 16, ()))
    out = case.on_host(winograd_f32, Params(outputs, 4, 4, 64 // outputs**2))
    assert np.abs(out - case.expected).max() <= limit * np.abs(case.expected).max()


def test_result_depends_neither_on_tile_nor_block_nor_threads():
    case = Case(same((1, 13, 13, 12), 20))
    first = case.on_host(winograd_f32, Params(4, 2, 2, 16))
    for params in (Params(4, 5, 4, 5), Params(4, 1, 8, 3, parallel=True), Params(4, 3, 3, 16, parallel=True)):
        np.testing.assert_array_equal(case.on_host(winograd_f32, params), first)


def test_on_a_board(tmp_path: Path, board: Board):
    cases = [(Case(workload), params) for workload, params in CASES]
    calls = [case.call(winograd_f32, params) for case, params in cases]
    outputs = board.load(model_so(tmp_path / "model.so", calls, BASELINE)).run(
        [array for _, arguments, _, _ in calls for array in arguments]
    )
    for (case, params), actual in zip(cases, outputs, strict=True):
        assert (np.abs(actual - case.expected) <= bound(case, params.outputs)).all()


# The 3 x 3 layers of stride 1 of ResNet-50.
LAYERS = [(56, 64), (28, 128), (14, 256), (7, 512)]


@pytest.mark.parametrize("core", ["neoverse-n2", "cortex-a76", "cortex-a53"])
@pytest.mark.parametrize(("side", "channels"), LAYERS)
def test_chosen_where_its_estimate_wins(side: int, channels: int, core: str):
    workload = same((1, side, side, channels), channels)
    choice = select(workload, CORES[core])
    assert isinstance(choice, Choice)
    params = gemm_f32.default(workload, CORES[core])
    assert choice.kernel == winograd_f32.NAME
    assert choice.estimate < gemm_f32.estimate(workload, params, CORES[core])
    without = select(workload, CORES[core], without=(winograd_f32.NAME,))
    assert isinstance(without, Choice)
    assert without.kernel == gemm_f32.NAME
    off = next(r for r in without.rejected if r.asked == winograd_f32.NAME)
    assert (off.reason, off.actual) == ("switched off", "off")


@pytest.mark.parametrize("outputs", [2, 4])
def test_weights_that_leave_the_cache_are_read_at_the_pace_of_memory(outputs: int):
    workload, core = conv2d((1, 7, 7, 256), 256, (3, 3), padding=(1, 1, 1, 1)), CORES["neoverse-n2"]
    large = dataclasses.replace(core, l2=dataclasses.replace(core.l2, size=1 << 30))
    params = Params(outputs, 4, 4, 4)
    more = ((outputs + 2) ** 2 - 9) * 256 * 256 * 4 / MEMORY_BYTES_PER_CYCLE
    apart = winograd_f32.estimate(workload, params, core) - winograd_f32.estimate(workload, params, large)
    assert apart == pytest.approx(more)


@pytest.mark.parametrize(("side", "channels", "outputs"), [(28, 128, 4), (14, 256, 4), (7, 512, 2)])
def test_weights_that_threads_wait_for_count_more(side: int, channels: int, outputs: int):
    """Of ResNet-50's last layers F(4 x 4, 3 x 3) reads 36 MiB, for fewer cycles on one thread and more on four."""
    workload = conv2d((1, side, side, channels), channels, (3, 3), padding=(1, 1, 1, 1))
    assert winograd_f32.default(workload, CORE).outputs == outputs


def test_not_chosen_where_tiles_are_mostly_border():
    choice = select(same((1, 1, 1, 64), 64), CORE)
    assert isinstance(choice, Choice)
    assert choice.kernel == gemm_f32.NAME


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(("side", "channels"), LAYERS)
def test_blocks_are_even_for_the_threads(side: int, channels: int, workers: int):
    params = winograd_f32.default(same((1, side, side, channels), channels), CORE)
    assert params.parallel
    blocks = WinogradPlan(same((1, side, side, channels), channels), params).blocks
    # All threads share the stages of a few blocks; more of them are a task each.
    assert blocks < winograd_tiling.TASK_PARTS or blocks % workers == 0


def test_a_task_has_room_for_its_data_and_one_more_product():
    workload = same((1, 24, 24, 64), 64)
    cut = WinogradPlan(workload, winograd_f32.default(workload, CORE))
    assert cut.in_place
    assert cut.input_pitch == cut.output_pitch == (cut.products + 1) * 64 + winograd_tiling.LINE


def test_matches_says_what_it_saw():
    assert winograd_f32.matches(same((1, 8, 8, 4), 8), CORE) == KernelMatch(
        "float32 3 x 3 of 4 to 8 channels"
    )


@pytest.mark.parametrize(
    ("workload", "limit", "actual"),
    [
        (conv2d((1, 8, 8, 4), 8, (5, 5)), "(3, 3)", "(5, 5)"),
        (conv2d((1, 8, 8, 4), 8, (3, 3), strides=(2, 1)), "(1, 1)", "(2, 1)"),
        (conv2d((1, 8, 8, 4), 8, (3, 3), dilation=(1, 2)), "(1, 1)", "(1, 2)"),
        (conv2d((1, 8, 8, 8), 8, (3, 3), groups=2), "1", "2"),
        (conv2d((1, 8, 8, 3), 8, (3, 3)), "multiples of 4", "3 to 8"),
        (dataclasses.replace(same((1, 8, 8, 4), 8), output_dtype="float16"), "float32", "float16, float32"),
    ],
)
def test_near_misses_name_limit_and_actual(workload: Workload, limit: str, actual: str):
    answer = winograd_f32.matches(workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert (answer.limit, answer.actual) == (limit, actual)
