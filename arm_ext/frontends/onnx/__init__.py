# SPDX-License-Identifier: Apache-2.0
"""The ONNX front end: standard and contributed operators, subgraphs, states."""
