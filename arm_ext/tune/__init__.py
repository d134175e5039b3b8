# SPDX-License-Identifier: Apache-2.0
"""Tuning: the search for the fastest kernel and parameters for each workload of a model on a core.

    task ─► space ─► search ─► measure ─► database ─► tuned
                       ▲  cost_model, transfer  │
                       └────────────────────────┘

A model's workloads are the tasks, a kernel with its parameters is a candidate, and a measured one is a record. Kernels
emit TensorIR from their parameters, without a schedule, so that MetaSchedule's traces cannot hold what is searched
for them; of its parts the cost model's trees and the task scheduler's gradient serve parameters as well. For the loops
that no kernel takes its rules draw traces, which are candidates beside the schedule that they have without tuning.
"""
