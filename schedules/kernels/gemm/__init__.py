# SPDX-License-Identifier: Apache-2.0
"""Matrix products: convolutions and linear layers as implicit GEMM, and products of two run-time tensors."""
