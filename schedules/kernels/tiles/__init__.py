# SPDX-License-Identifier: Apache-2.0
"""Register tiles: the innermost loops of matrix products, one file per instruction family."""
