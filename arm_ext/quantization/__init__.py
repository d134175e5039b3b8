# SPDX-License-Identifier: Apache-2.0
"""Quantisation of a float model: into QDQ form by onnxruntime's quantiser, or of its weights alone."""
