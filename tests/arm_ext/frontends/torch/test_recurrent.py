# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN of torch against torch."""

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import Tensor, nn

from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import run_on_host

INPUT, HIDDEN = 6, 7

LOOPS: dict[str, tuple[type[nn.RNNBase], dict[str, Any], int]] = {
    "lstm, two layers and directions": (
        nn.LSTM,
        {"bidirectional": True, "num_layers": 2, "batch_first": True},
        4,
    ),
    "gru, two layers": (nn.GRU, {"num_layers": 2}, 2),
    "rnn without biases": (nn.RNN, {"bias": False, "bidirectional": True}, 2),
    "rnn, relu": (nn.RNN, {"nonlinearity": "relu", "batch_first": True}, 1),
    "lstm with a projection": (nn.LSTM, {"proj_size": 3}, 0),
}
"""Operator, options, and how many calls it becomes; none where it is unrolled."""


class WithStates(nn.Module):
    """A cell whose state comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(INPUT, HIDDEN, bidirectional=True)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.cell(x, (h, c))
        return y, h, c


def check(module: nn.Module, inputs: tuple[Tensor, ...]) -> int:
    """Compare with torch; returns how many calls walk a sequence."""
    module.eval()
    mod = import_torch(torch.export.export(module, inputs)).mod
    expected = module(*inputs)
    flat = torch.utils._pytree.tree_leaves(expected)
    found = run_on_host(mod, [value.numpy() for value in inputs])
    for value, wanted in zip(found, flat, strict=True):
        np.testing.assert_allclose(value, wanted.detach().numpy(), rtol=0, atol=2e-6)
    called = [f.attrs["numerics"] for _, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    return sum(str(name).startswith("float.") for name in called)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name == "rnn without biases")) for name in LOOPS]
)
def test_equals_torch(name: str):
    kind, options, _ = LOOPS[name]
    torch.manual_seed(3)
    calls = check(kind(INPUT, HIDDEN, **options), (torch.randn(3, 5, INPUT),))
    assert bool(calls) == bool(LOOPS[name][2])
    # Equal layers and directions share a function.
    assert calls <= LOOPS[name][2]


def test_states_come_in_and_go_out():
    torch.manual_seed(3)
    states = [torch.randn(2, 3, HIDDEN) for _ in range(2)]
    assert check(WithStates(), (torch.randn(1, 3, INPUT), *states)) == 2
