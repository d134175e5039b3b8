# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from arm_ext.common.errors import UsageError
from arm_ext.llm.sampling import Sampling

LOGITS = np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.0625], np.float32))


def drawn(**how: float) -> dict[int, float]:
    """Shares of 4,000 draws."""
    sampler = Sampling(temperature=how.pop("temperature", 1.0), **how).sampler()
    found = [sampler.next(LOGITS, []) for _ in range(4000)]
    return {token: found.count(token) / 4000 for token in sorted(set(found))}


def test_the_most_likely_token():
    assert Sampling().sampler().next(LOGITS, []) == 0


@pytest.mark.parametrize(
    ("how", "shares"),
    [
        ({}, {0: 0.5, 1: 0.25, 2: 0.125, 3: 0.0625, 4: 0.0625}),
        ({"top_k": 2}, {0: 2 / 3, 1: 1 / 3}),
        ({"top_p": 0.75}, {0: 2 / 3, 1: 1 / 3}),
        ({"top_p": 0.76}, {0: 4 / 7, 1: 2 / 7, 2: 1 / 7}),
        ({"min_p": 0.24}, {0: 4 / 7, 1: 2 / 7, 2: 1 / 7}),
        ({"temperature": 0.5, "top_k": 2}, {0: 0.8, 1: 0.2}),
    ],
)
def test_filters(how: dict[str, float], shares: dict[int, float]):
    found = drawn(**how)
    assert set(found) == set(shares)
    assert max(abs(found[token] - shares[token]) for token in shares) < 0.03


def test_equal_seeds_give_equal_draws():
    assert _text(1) == _text(1)
    assert len({tuple(_text(seed)) for seed in range(5)}) == 5


def _text(seed: int) -> list[int]:
    sampler = Sampling(temperature=1.0, seed=seed).sampler()
    return [sampler.next(LOGITS, []) for _ in range(20)]


def test_repetition():
    logits = np.array([2.0, 1.5, -1.0], np.float32)
    assert Sampling(repetition=2.0).sampler().next(logits, [0]) == 1
    assert Sampling(repetition=2.0).sampler().next(logits, [0, 0, 1]) == 0
    assert Sampling(repetition=0.5).sampler().next(np.array([-1.0, -1.5], np.float32), [1]) == 1


@pytest.mark.parametrize(
    "how", [{"temperature": -1}, {"top_p": 0}, {"min_p": 2}, {"repetition": 0}, {"top_k": -1}]
)
def test_impossible_values(how: dict[str, float]):
    (name,) = how
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')}"):
        Sampling(**how)
