# SPDX-License-Identifier: Apache-2.0
"""The numerics: definitions of what quantised operators compute, each in numpy and, beside it, in TIR."""
