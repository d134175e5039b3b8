# SPDX-License-Identifier: Apache-2.0
"""Indices that are known at run time: proven to be in bounds, or checked."""

from relay_passes.bounds.check import IndexCheck, OutOfBoundsError, check_indices

__all__ = ["IndexCheck", "OutOfBoundsError", "check_indices"]
