# SPDX-License-Identifier: Apache-2.0
"""From QDQ form to integer arithmetic, given a numerics."""

from relay_passes.integerize.integerize import integerize
from relay_passes.integerize.numerics import Numerics
from relay_passes.integerize.values import RemainingFloat

__all__ = ["Numerics", "RemainingFloat", "integerize"]
