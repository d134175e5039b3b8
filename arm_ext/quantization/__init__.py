# SPDX-License-Identifier: Apache-2.0
"""Quantisation of float models: to QDQ form by onnxruntime's quantiser, or of their weights only."""
