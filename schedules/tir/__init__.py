# SPDX-License-Identifier: Apache-2.0
"""Helpers that emit TensorIR."""
