# SPDX-License-Identifier: Apache-2.0
"""The numerics `qdq` and `tosa`: definitions of quantised operators, each in numpy and in TIR."""
