# SPDX-License-Identifier: Apache-2.0
"""Bounds of run-time indices: each index is proven to be in bounds, or checked at run time."""

from relay_passes.bounds.check import IndexCheck, OutOfBoundsError, check_indices

__all__ = ["IndexCheck", "OutOfBoundsError", "check_indices"]
