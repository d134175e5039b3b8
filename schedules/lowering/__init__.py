# SPDX-License-Identifier: Apache-2.0
"""From a composite Relax function to its workload, and to the PrimFunc of the kernel that computes it."""
