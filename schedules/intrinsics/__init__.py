# SPDX-License-Identifier: Apache-2.0
"""Instruction families, one per file: each function emits an instruction, and documents its meaning.

Wrong operands raise ValueError while a kernel is emitted. Vector operands are register values without strides; their
dtype and number of lanes are checked (`operands.check`). Vectors are loaded by TVM's loads, which are correct for any
strides of a buffer. Functions whose operand is a buffer use its address alone, so they require a flat buffer of stride
1 (`operands.check_flat`). No instruction requires more alignment than that of an element.
"""
