# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest

from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.partition import offload
from arm_ext.ethosu.partition.offload import Offload, Offloader
from arm_ext.ethosu.partition.offload_cost import Clocks
from arm_ext.ethosu.partition.parts import Wishes
from arm_ext.ethosu.vela.compiler import VelaError, VelaOptions, compile_network
from arm_ext.target.npu import resolve_npu
from tests.arm_ext.ethosu.partition.divided import prepared

DEAR, CHEAP = 1e9, 0.0  # CPU cycles per operator with which the NPU is always faster, and never


def divide(cpu_cycles: Callable[[Operator], float], model: str = "mixed", **options: object) -> Offload:
    settings = {"wishes": Wishes(), "clocks": Clocks(1000, 500), **options}
    divider = Offloader(resolve_npu("ethos-u55-128"), VelaOptions(), cpu_cycles=cpu_cycles, **settings)  # type: ignore[arg-type]
    return divider.divide(prepared(model).graph)


def kinds(divided: Offload) -> list[list[str]]:
    return [[operator.kind for operator in region.part.operators] for region in divided.regions]


def reasons(divided: Offload) -> dict[str, str]:
    return {operator.kind: why.reason for operator, why in divided.refused.items()}


def test_a_region_that_gains_is_not_cut():
    # Only attention is slow on the NPU; that does not matter if the CPU is slow for the other operators.
    divided = divide(lambda op: CHEAP if op.kind == "matmul" else DEAR)
    assert "matmul" in kinds(divided)[-1]
    assert not divided.refused


def test_of_a_region_that_does_not_gain_the_dear_operators_are_taken_out():
    # The projections save more than a hand-over; attention loses more than all of them save.
    cycles = {"matmul": CHEAP, "softmax": CHEAP, "linear": 60_000.0}
    divided = divide(lambda op: cycles.get(op.kind, DEAR if op.kind == "conv2d" else CHEAP))
    assert reasons(divided)["matmul"] == "it takes longer on the NPU, where its region does not gain"
    assert sum(region.count("linear") for region in kinds(divided)) == 3
    for operator, why in divided.refused.items():
        if operator.kind == "matmul":
            assert float(why.actual.split()[0]) > float(why.limit.removeprefix("at most ").split()[0]) == 0


def test_what_is_left_of_a_region_without_dear_operators_stays_for_its_hand_over():
    # 10 us on the CPU; the NPU takes about two, but the hand-over twenty.
    others = Wishes(cpu=frozenset(("conv2d", "permute_dims")))
    divided = divide(lambda _: 10_000.0, "whole", wishes=others)
    assert kinds(divided) == []
    assert reasons(divided)["depthwise_conv2d"] == "the hand-over costs more than its region saves"


@pytest.mark.parametrize(
    "options", [{"weigh": False}, {"wishes": Wishes(npu=frozenset(("conv2d", "softmax")))}]
)
def test_a_wish_is_not_weighed(options: dict[str, object]):
    divided = divide(lambda _: CHEAP, **options)
    offloaded = {kind for region in kinds(divided) for kind in region}
    assert {"conv2d", "softmax"} <= offloaded


def test_every_operator_is_in_a_region_or_refused():
    graph = prepared("mixed").graph
    for share in (CHEAP, 3_000.0, 30_000.0, DEAR):
        divided = divide(lambda op, share=share: share * len(op.inputs))  # type: ignore[misc]
        inside = [operator for region in divided.regions for operator in region.part.operators]
        outside = list(divided.refused)
        assert sorted(map(id, [*inside, *outside])) == sorted(map(id, graph.operators))


def test_what_vela_does_not_compile_stays_on_the_cpu_alone(monkeypatch: pytest.MonkeyPatch):
    def refusing(network: bytes, *rest: object, **named: object) -> object:
        # Vela's own error, which names only the type of an operator.
        if b"softmax" in network or b"scores" in network:
            raise VelaError("Unsupported operator")
        return compile_network(network, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(offload, "compile_network", refusing)
    divided = divide(lambda _: DEAR)
    assert {operator.kind for operator in divided.refused} <= {"softmax", "matmul", "permute_dims"}
    assert all(why.actual == "Unsupported operator" for why in divided.refused.values())
    assert sum(region.count("linear") for region in kinds(divided)) == 3


def test_equal_regions_are_compiled_once(monkeypatch: pytest.MonkeyPatch):
    compiled: list[bytes] = []

    def counting(network: bytes, *rest: object, **named: object) -> object:
        compiled.append(network)
        return compile_network(network, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(offload, "compile_network", counting)
    divide(lambda op: DEAR if op.kind == "conv2d" else CHEAP)
    assert len(compiled) == len(set(compiled)) > 1
