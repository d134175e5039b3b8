# SPDX-License-Identifier: Apache-2.0
"""Errors of the functional model for streams that it cannot run."""

from arm_ext.common.errors import InternalError


class StreamError(InternalError):
    """A command stream or its weights is malformed, or addresses memory that does not exist.

    A stream comes out of the compiler, so that this is a defect of it unless the payload was altered.
    """
