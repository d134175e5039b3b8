# SPDX-License-Identifier: Apache-2.0
"""Instruction families, one a file: what an instruction means beside the instruction."""
