# SPDX-License-Identifier: Apache-2.0
"""Lowering of composite Relax functions: parsing into workloads, and kernels' PrimFuncs."""
