# SPDX-License-Identifier: Apache-2.0
"""ONNX, whole: operators, contributed operators, subgraphs, states."""
