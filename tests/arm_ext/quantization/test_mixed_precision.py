# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from arm_ext.api import digits
from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.child_process import Pool
from arm_ext.quantization.float_layers import units_of
from arm_ext.quantization.int16_layers import with_nodes
from arm_ext.quantization.layers import Matching
from arm_ext.quantization.metrics import metric_of
from arm_ext.quantization.mixed_precision import Judge, Precision, Search, built
from arm_ext.quantization.static import Quantizer
from tests.arm_ext.quantization.uneven import training_images, uneven_digits

UNEVEN = {"conv1", "conv2/depthwise", "conv2/pointwise"}
"""They compute or read the channels of uneven ranges."""


BOTH: tuple[Precision, ...] = ("int16", "float32")
NAMES = ("conv1", "conv2/depthwise", "conv2/pointwise", "conv3", "pool", "logits")


def searched(
    drop: float,
    cycles: dict[Precision, dict[str, float]] | None = None,
    precisions: tuple[Precision, ...] = ("float32",),
) -> Search:
    quantizer = Quantizer(uneven_digits(), {"inputs": training_images(64)}, "minmax", ({},))
    matching = Matching(quantizer.float_model({}), quantizer.quantized({}))
    feeds = [{"image": image[None]} for image in digits.held_out()[0][:60]]
    metric = metric_of("cosine", {}, len(feeds))
    judge = Judge.of_onnx("digits", matching.source.proto, feeds, metric, lambda _, lost: lost <= drop)
    units = units_of(matching)
    layers = {precision: [unit.name for unit in units] for precision in precisions}
    return Search(units, partial(with_nodes, matching), judge, cycles, layers)


def test_the_fewest_layers_are_those_of_the_uneven_channels() -> None:
    search = searched(0.001)
    chosen = search.run()
    assert chosen.at("float32") == UNEVEN
    assert search.complete
    assert sorted(search.noises, key=search.noises.__getitem__)[-3:] == sorted(
        UNEVEN, key=search.noises.__getitem__
    )
    # None of them can go.
    assert not any(search.trials[chosen.raised - {(name, "float32")}].holds for name in UNEVEN)


def test_int16_serves_where_activations_are_to_blame() -> None:
    search = searched(0.0095, precisions=BOTH)
    assert search.run().raised == {("conv2/pointwise", "int16")}
    # The weights of these layers are to blame, too, and stay of 8 bits in int16.
    closer = searched(0.001, precisions=BOTH).run()
    assert closer.at("float32") == UNEVEN


def test_int16_that_costs_as_much_as_float_is_no_choice() -> None:
    cost = dict.fromkeys(NAMES, 10.0)
    search = searched(0.001, {"int16": cost, "float32": cost}, BOTH)
    search.run()
    assert not any(trial.at("int16") for trial in search.trials.values())
    cheaper = searched(0.005, {"int16": dict.fromkeys(NAMES, 5.0), "float32": cost}, BOTH).run()
    assert cheaper.at("int16")


def test_a_bound_that_holds_needs_no_layer_and_no_search() -> None:
    search = searched(0.5)
    assert search.run().raised == frozenset()
    assert search.noises == {}


def test_layers_that_cost_much_are_the_last_to_go_to_float() -> None:
    cheap = dict.fromkeys(NAMES, 10.0)
    assert searched(0.0095).run().at("float32") == {"conv2/pointwise"}
    loose = searched(0.0095, {"float32": cheap | {"conv2/pointwise": 1e6}})
    chosen = loose.run()
    assert "conv2/pointwise" not in chosen.at("float32")
    assert loose.price(chosen)[0] < 1e6
    front = loose.front()
    assert [each.metric for each in front] == sorted(each.metric for each in front)
    assert front[0].raised == frozenset()


def test_a_bound_that_float_misses_is_a_finding() -> None:
    with pytest.raises(ModelError, match="the bound is missed even with all 6 layers in float"):
        searched(-0.1).run()


def test_an_interrupted_search_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    search, measured, jobs = searched(0.001), Pool.map, []

    def interrupted(self: Pool[Any, Any], some: Sequence[Any]) -> list[Any]:
        jobs.append(some)
        if len(jobs) > 1:
            raise KeyboardInterrupt
        return measured(self, some)

    monkeypatch.setattr(Pool, "map", interrupted)
    chosen = search.run()
    assert not search.complete
    assert list(search.noises) == [unit.name for unit in search.units]
    assert chosen.holds
    assert len(chosen.at("float32")) == 6


def test_the_number_of_processes_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = {name: 10.0 + 3 * index for index, name in enumerate(NAMES)}
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        search = searched(0.005, {"int16": dict.fromkeys(NAMES, 5.0), "float32": cost}, BOTH)
        found.append((search.run(), list(search.trials.values()), search.noises))
    assert found[0] == found[1]


def test_a_model_that_ends_the_runtime_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    search = searched(0.001)
    monkeypatch.setattr(Judge, "noise", lambda *_: os.abort())
    with pytest.raises(ModelError, match=r"^digits: a quantised model cannot be run: .* SIGABRT"):
        search.run()


def test_noise_of_equal_outputs_is_none() -> None:
    search = searched(0)
    everything = frozenset((unit.name, "float32") for unit in search.units)
    assert search.judge.noise(built(search.units, search.build, everything)) == 0
    assert np.isclose(search.judge.reached, 1)
