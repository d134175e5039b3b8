# SPDX-License-Identifier: Apache-2.0
"""Samples of operators and what becomes of them; PyTorch's own table needs a package that is not installed here."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch_samples


def call(operator: Callable[..., Any], *args: Any, dtype: torch.dtype = torch.float32) -> torch_samples.Call:
    x = torch.linspace(-2, 2, 7, dtype=dtype)
    return torch_samples.Call(operator, SimpleNamespace(input=x, args=args, kwargs={})).eval()


def test_samples_pass_and_are_refused():
    assert torch_samples.run_sample(call(torch.add, torch.ones(7), 2)) == ("passed", "")
    for dtype in (torch.bfloat16, torch.float16):
        assert torch_samples.run_sample(call(torch.exp, dtype=dtype)) == ("passed", "")
    stage, why = torch_samples.run_sample(call(torch.bernoulli, 0.5))
    assert stage == "refused"
    assert "draws random numbers" in why


def test_other_values_and_errors_are_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_samples, "run_on_host", lambda mod, inputs: [inputs[0]])
    told = "output 0: 3 of 7 differ, such as -2.0, not 2.0"
    assert torch_samples.run_sample(call(torch.abs)) == ("values", told)
    monkeypatch.setattr(torch_samples, "run_on_host", lambda mod, inputs: 1 / 0)
    assert torch_samples.run_sample(call(torch.abs)) == ("defect", "ZeroDivisionError: division by zero")


def test_integers_are_compared_exactly():
    ours, theirs = np.array([100_000_001]), np.array([100_000_000])
    assert torch_samples.difference([ours], [theirs]) is not None
    assert torch_samples.difference([ours.astype(np.float32)], [theirs.astype(np.float32)]) is None


def test_halves_are_compared_by_their_own_steps():
    for dtype, step in (("float16", 2e-3), ("bfloat16", 2e-2)):
        near, far = (np.array([1 + steps * step]).astype(np.dtype(dtype)) for steps in (1, 6))
        one = np.ones(1).astype(near.dtype)
        assert torch_samples.difference([near], [one]) is None
        assert torch_samples.difference([far], [one]) is not None
