# SPDX-License-Identifier: Apache-2.0
"""Composites: an anchor operator with the elementwise steps that its kernel can compute in its epilogue."""
