# SPDX-License-Identifier: Apache-2.0
"""The interface between graph and kernels: the vocabulary of composites, their specs, and workloads."""
