# SPDX-License-Identifier: Apache-2.0
"""Rounding rules, each once in numpy and beside it in TIR."""
