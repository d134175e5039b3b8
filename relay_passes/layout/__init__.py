# SPDX-License-Identifier: Apache-2.0
"""Channels last: what axes mean, how each operator is written then, and where transposes stay."""

from relay_passes.layout.nhwc import KeptLayout, to_nhwc

__all__ = ["KeptLayout", "to_nhwc"]
