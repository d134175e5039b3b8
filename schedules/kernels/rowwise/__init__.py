# SPDX-License-Identifier: Apache-2.0
"""What kernels share that compute row by row: normalization and softmax."""
