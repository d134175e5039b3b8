# SPDX-License-Identifier: Apache-2.0
"""The choice of the next token from logits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import UsageError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; every filter applies to the distribution after the temperature, in this order.

    Attributes:
        temperature: Divisor of the logits; 0 takes the most likely token.
        top_k: Only so many most likely tokens; 0 for all.
        top_p: Only the most likely tokens that together have this probability.
        min_p: Only tokens with at least this share of the most likely token's probability.
        repetition: Logits of tokens that occurred are divided by this if positive, and multiplied if negative
            (Keskar et al., CTRL, 2019).
        seed: Seed of numpy's PCG64; equal seeds give equal texts.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            UsageError: A value is out of its range.
        """
        ranges = {
            "temperature": self.temperature >= 0,
            "top-k": self.top_k >= 0,
            "top-p": 0 < self.top_p <= 1,
            "min-p": 0 <= self.min_p <= 1,
            "repetition": self.repetition > 0,
        }
        for name, is_right in ranges.items():
            if not is_right:
                value = getattr(self, name.replace("-", "_"))
                raise UsageError(f"--{name} {value}: it must be {_RANGES[name]}")

    def sampler(self) -> "Sampler":
        """Return the state of a text's draws."""
        return Sampler(self, np.random.default_rng(self.seed))


_RANGES = {
    "temperature": "0 or more",
    "top-k": "0 or more",
    "top-p": "above 0, and at most 1",
    "min-p": "from 0 to 1",
    "repetition": "above 0",
}


@dataclass(frozen=True)
class Sampler:
    """Draws the tokens of a text."""

    sampling: Sampling
    random: np.random.Generator

    def next(self, logits: Array, before: Sequence[int]) -> int:
        """Return the next token.

        Args:
            logits: float32 [vocabulary].
            before: All tokens before it.
        """
        how, values = self.sampling, logits.astype(np.float64)
        if how.repetition != 1.0 and before:
            seen = np.unique(np.array(before))
            values[seen] = np.where(
                values[seen] > 0, values[seen] / how.repetition, values[seen] * how.repetition
            )
        if how.temperature == 0:
            return int(values.argmax())
        order = np.argsort(-values, kind="stable")
        powers = np.exp((values[order] - values[order[0]]) / how.temperature)
        shares = powers / powers.sum()
        kept = np.ones(len(shares), bool)
        if how.top_k:
            kept[how.top_k :] = False
        # The token whose share makes the sum reach top_p is kept.
        kept &= np.cumsum(shares) - shares < how.top_p
        kept &= shares >= how.min_p * shares[0]
        kept[0] = True
        shares = np.where(kept, shares, 0.0)
        return int(order[self.random.choice(len(order), p=shares / shares.sum())])
