# SPDX-License-Identifier: Apache-2.0
"""Attention without a score matrix in memory."""
