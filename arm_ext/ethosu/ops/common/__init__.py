# SPDX-License-Identifier: Apache-2.0
"""Code shared by NPU operators: the operator graph, constraints, parsing helpers, windows, requantisation."""
