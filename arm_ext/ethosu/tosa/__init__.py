# SPDX-License-Identifier: Apache-2.0
"""TOSA 1.0: construction of graphs, emission helpers that operators share, and the reference model."""
