# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one or two 8-bit tensors."""
