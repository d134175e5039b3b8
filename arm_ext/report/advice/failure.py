# SPDX-License-Identifier: Apache-2.0
"""Causes of failures to build or measure something."""

from typing import Literal

from arm_ext.common.errors import ArmExtError, EnvError, InternalError

Failure = Literal["", "model", "environment", "defect"]


def told(error: Exception) -> tuple[Failure, str]:
    """Return the cause of an error ("environment", "model" or "defect"), and the first line of its message."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, EnvError):
        return "environment", said
    if isinstance(error, ArmExtError) and not isinstance(error, InternalError):
        return "model", said
    return "defect", f"a defect of arm-ext, {type(error).__name__}: {said}"
