# SPDX-License-Identifier: Apache-2.0
"""TensorIR schedules for Arm: `lower` turns a composite of `VOCABULARY` into a PrimFunc for one of `CORES`."""

from schedules.cores import CORES
from schedules.costs import Costs
from schedules.kernel import Rejection
from schedules.lower import Lowered, lower
from schedules.select import Choice, Option, Rejected, select
from schedules.vocabulary import VOCABULARY

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
