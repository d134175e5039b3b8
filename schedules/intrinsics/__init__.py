# SPDX-License-Identifier: Apache-2.0
"""Instruction families, one per file: each function documents the instruction's meaning and emits it.

A wrong layout is refused while a kernel is emitted. Vectors are in registers, and have no strides; those of another
dtype, or of more or fewer lanes, are refused (`operands.check`). Vectors come from loads of TVM's, which follow a
buffer's strides whatever they are. What takes a buffer, and sees but its address, refuses any but flat ones of stride 1
(`operands.check_flat`). No instruction here asks for more alignment than an element's.
"""
