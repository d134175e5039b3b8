# SPDX-License-Identifier: Apache-2.0
"""The phases from an imported model to machine code."""
