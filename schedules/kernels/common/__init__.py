# SPDX-License-Identifier: Apache-2.0
"""What all kernel families share: the contract of a kernel, cost model, tiling, threads, copies."""
