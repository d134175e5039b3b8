# SPDX-License-Identifier: Apache-2.0
"""Softmax along the last axis."""
