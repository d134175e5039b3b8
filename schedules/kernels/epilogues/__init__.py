# SPDX-License-Identifier: Apache-2.0
"""Epilogues: bias, activation, requantisation and residual, computed on the sums in registers."""
