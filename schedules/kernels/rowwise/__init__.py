# SPDX-License-Identifier: Apache-2.0
"""Modules that the row-by-row kernels share: normalization and softmax."""
