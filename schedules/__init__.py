# SPDX-License-Identifier: Apache-2.0
"""TensorIR schedules for Arm: `lower` turns a composite of `VOCABULARY` into a PrimFunc for one of `CORES`."""

from schedules.composites.vocabulary import VOCABULARY
from schedules.cores import CORES
from schedules.kernels.common.contract import Rejection
from schedules.lowering.lower import Lowered, lower
from schedules.lowering.rewrite_costs import Costs
from schedules.select import Choice, Option, Rejected, select

__all__ = [
    "CORES",
    "VOCABULARY",
    "Choice",
    "Costs",
    "Lowered",
    "Option",
    "Rejected",
    "Rejection",
    "lower",
    "select",
]
