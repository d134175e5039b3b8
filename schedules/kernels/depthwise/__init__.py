# SPDX-License-Identifier: Apache-2.0
"""Kernels of depthwise convolutions."""
