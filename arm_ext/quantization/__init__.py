# SPDX-License-Identifier: Apache-2.0
"""Static quantisation of a float model into QDQ form, by onnxruntime's quantiser."""
