# SPDX-License-Identifier: Apache-2.0
"""The phase `layout`: channels-last (NHWC) layouts, chosen so that few bytes are transposed."""

from relay_passes.layout.nhwc import KeptLayout, to_nhwc

__all__ = ["KeptLayout", "to_nhwc"]
