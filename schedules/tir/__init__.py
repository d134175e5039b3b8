# SPDX-License-Identifier: Apache-2.0
"""Small pieces from which TensorIR is emitted."""
