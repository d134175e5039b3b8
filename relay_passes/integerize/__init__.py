# SPDX-License-Identifier: Apache-2.0
"""The phase `integerize`: models in QDQ form are rewritten to integer operators, defined by a numerics."""

from relay_passes.integerize.integerize import integerize
from relay_passes.integerize.numerics import Numerics

__all__ = ["Numerics", "integerize"]
