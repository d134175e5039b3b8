# SPDX-License-Identifier: Apache-2.0
"""Causes for which something could not be built or measured."""

from typing import Literal

from arm_ext.common.errors import ArmExtError, EnvError, InternalError

Failure = Literal["", "model", "environment", "defect"]


def told(error: Exception) -> tuple[Failure, str]:
    """Return whose fault an error is, and the first line of its message."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, EnvError):
        return "environment", said
    if isinstance(error, ArmExtError) and not isinstance(error, InternalError):
        return "model", said
    return "defect", f"a defect of arm-ext, {type(error).__name__}: {said}"
