# SPDX-License-Identifier: Apache-2.0
"""TensorIR schedules for Arm: `schedules.lower` turns a composite of `schedules.vocabulary` into a PrimFunc for a core.

Nothing is imported here: what describes cores (`schedules.cores`) does not need TVM, which takes seconds to load.
"""
