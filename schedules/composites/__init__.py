# SPDX-License-Identifier: Apache-2.0
"""What kernels are asked for: the vocabulary of composites, their descriptions, and workloads."""
