# SPDX-License-Identifier: Apache-2.0
"""Code that several NPU operators share: the operator graph, constraints, parsing helpers, windows, requantisation."""
