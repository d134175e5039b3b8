# SPDX-License-Identifier: Apache-2.0
"""The phase `integerize`: from QDQ form to integer arithmetic, as a numerics defines it."""

from relay_passes.integerize.integerize import integerize
from relay_passes.integerize.numerics import Numerics

__all__ = ["Numerics", "integerize"]
