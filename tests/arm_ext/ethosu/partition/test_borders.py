# SPDX-License-Identifier: Apache-2.0
"""Every tensor that crosses a region's border has a reason."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from arm_ext import NpuOptions
from arm_ext.ethosu.ops.common.operators import NpuGraph, Operator
from arm_ext.ethosu.partition import offload
from arm_ext.ethosu.partition.borders import borders
from arm_ext.ethosu.partition.divider import Divider
from arm_ext.ethosu.partition.offload_cost import Clocks
from arm_ext.ethosu.partition.parts import Wishes
from arm_ext.ethosu.vela.compiler import VelaError, VelaOptions, compile_network
from arm_ext.report.npu import NpuBorder
from arm_ext.report.page import render_all as render
from arm_ext.report.report import build_report
from arm_ext.target.npu import resolve_npu
from tests.arm_ext.ethosu.partition.divided import named, prepared


def of_mixed(options: NpuOptions) -> list[tuple[NpuBorder, ...]]:
    return [region.borders for region in prepared("mixed").divide(Divider(options)).report.regions]


def texts(ends: Sequence[NpuBorder]) -> list[tuple[str, str, str]]:
    return [(end.way, end.sources[-1] if end.sources else "", end.reason.split(" (")[0]) for end in ends]


NORM = "we have no TOSA form of this operator"
FLOAT = "it converts between float and integers"


def test_what_the_npu_lacks_ends_a_region():
    first, second = of_mixed(NpuOptions("ethos-u55-128", cpu_mhz=25))
    assert texts(first) == [("in", "image_q", FLOAT), ("out", "norm_q", NORM)]
    assert texts(second) == [("in", "norm_q", NORM), ("out", "mixture_d", FLOAT)]


def test_a_wish_and_what_does_not_gain_end_a_region():
    projection, softmax = of_mixed(NpuOptions("ethos-u85-512", npu_ops=("Softmax", "query")))
    wish = "--npu-ops does not name it"
    assert texts(projection) == [("in", "norm_q", NORM), ("out", "scores_q", wish)]
    assert texts(softmax) == [("in", "scores_q", wish), ("out", "mixture_q", wish)]


def test_a_path_over_the_cpu_ends_a_region():
    _, value, scores, mixture = of_mixed(NpuOptions("ethos-u55-128", cpu_mhz=5, cpu_ops=("Softmax",)))
    sent, (crossing,) = "--cpu-ops keeps it on the CPU", [end for end in mixture if "waits" in end.reason]
    assert crossing.reason.startswith(
        "region 3 waits for scores_d, softmax, softmax_q on the CPU, which waits for "
    )
    assert crossing.reason in {end.reason for end in value}
    assert texts(scores)[-1] == ("out", "softmax_q", sent)
    assert texts(mixture)[0] == ("in", "softmax_q", sent)


def test_the_report_shows_why_regions_are_not_one():
    model = prepared("mixed")
    options = NpuOptions("ethos-u55-128", cpu_mhz=5, cpu_ops=("Softmax",))
    report = model.divide(Divider(options)).report
    page = render(
        build_report("m", "cortex-a55", model.model.nodes, {}, [], model.options.profile.core, npu=report)
    )
    kept = {rejection.why() for rejection in report.rejections}
    between = [b for region in report.regions for b in region.borders if b.sources and b.reason not in kept]
    assert between
    _, said = page.split("Where the NPU's regions end")
    assert all(border.reason in " ".join(said.split()) for border in between)


def divided(graph: NpuGraph, wishes: Wishes) -> offload.Offload:
    """Divide a graph with as many operators as possible on the NPU."""
    npu, options = resolve_npu("ethos-u85-512"), VelaOptions()
    return offload.Offloader(npu, options, wishes, Clocks(1, 1), _free, weigh=False).divide(graph)


def _free(_: Operator) -> float:
    return 0.0


def test_company_that_vela_fails_at_is_two_regions(monkeypatch: pytest.MonkeyPatch):
    graph = prepared("whole").graph
    pair = graph.operators[1:3]

    def refusing(network: bytes, *rest: object, **named: object) -> object:
        # No real pair of operators makes Vela fail any more: emission works around them.
        if all(f"{operator.output.name}/".encode() in network for operator in pair):
            raise VelaError("not together")
        return compile_network(network, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(offload, "compile_network", refusing)
    found = divided(graph, Wishes())
    before, after = borders(graph, found, ())
    assert not found.refused
    assert list(found.apart) == [pair[1]]
    first, second = found.regions
    assert [*first.part.operators, *second.part.operators] == [*graph.operators]
    why = "stands apart from what it reads: not together"
    assert [end.way for end in before if end.reason.endswith(why)] == ["out"]
    assert [end.way for end in after if end.reason.endswith(why)] == ["in"]


def test_an_operator_apart_that_reads_no_region_ends_none():
    graph = prepared("mixed").graph
    found = divided(graph, Wishes(cpu=frozenset(("query", "turned"))))
    # It reads both values from the CPU, so it is not the reason why the two regions are separate.
    found = replace(found, apart={named(graph, "scores"): "it would not saturate"})
    *_, last = borders(graph, found, ())
    (why,) = {end.reason for end in last if "value" in end.sources}
    assert "waits for" in why
    assert "turned" in why
