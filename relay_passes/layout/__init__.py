# SPDX-License-Identifier: Apache-2.0
"""The phase `layout`: channels-last (NHWC) layouts, chosen so that few bytes are transposed."""

from relay_passes.layout.nhwc import to_nhwc

__all__ = ["to_nhwc"]
