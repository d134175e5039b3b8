# SPDX-License-Identifier: Apache-2.0
"""Modules that kernel families share: the kernel interface, cost model, tiling, threads, copies."""
