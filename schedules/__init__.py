# SPDX-License-Identifier: Apache-2.0
"""TensorIR schedules for Arm: `lowering` turns a composite of `composites.vocabulary` into a PrimFunc for a core.

Nothing is imported here: what describes cores (`schedules.cores`) does not need TVM, which takes seconds to load.
"""
