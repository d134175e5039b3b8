# SPDX-License-Identifier: Apache-2.0
"""From a float model to QDQ form, by onnxruntime's quantiser."""
