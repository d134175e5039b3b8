# SPDX-License-Identifier: Apache-2.0
"""A functional model of Ethos-U55, U65 and U85, which computes a payload's outputs from nothing but its bytes.

`linux_driver` checks in the same way what Linux's driver accepts.
"""

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.interpreter import run

__all__ = ["StreamError", "run"]
