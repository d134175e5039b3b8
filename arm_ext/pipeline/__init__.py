# SPDX-License-Identifier: Apache-2.0
"""The phases that a model goes through, from import to machine code."""
