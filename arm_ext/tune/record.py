# SPDX-License-Identifier: Apache-2.0
"""One finished trial, as a line of the database."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

import tvm
from pydantic import Field, model_validator

from arm_ext.common.json_record import ClosedRecord
from arm_ext.target.profiles import Profile

SCHEMA_VERSION: Literal[1] = 1

Unit = Literal["cycles", "seconds"]
"""Unit of a cost: estimated cycles from the counts of a virtual board, or seconds on a real one."""

Failure = Literal["", "build", "isa", "load", "run", "timeout", "board", "wrong values"]
"""Why a candidate has no cost: the step that failed; "board" if the board was lost more than once."""


class Record(ClosedRecord):
    """A measured candidate, with its cost or its failure.

    A cost is of a candidate whose values were right: they are compared with the composite's own before it is measured.

    Attributes:
        task: Key of the task, from the structure of its workload.
        workload: The workload, by which tasks of similar shapes find the record.
        candidate: Kernel and parameters.
        default: Whether the candidate is the one that is taken without tuning.
        core: Core of the profile.
        features: Features of the profile, for which the code was generated.
        tvm: Version that generated the code.
        unit: Unit of `cost`.
        where: The board, or the model that estimates cycles.
        cost: Cost of one call on one thread; None if it failed.
        instructions: Instructions of one call, where they were counted.
        failure: The step that failed; "" if there is a cost.
        detail: The failure's message, or empty.
        when: Time of the measurement, ISO 8601, UTC.
        seed: Seed of the search.
        conditions: Conditions of the measurement that the board reports: CPU, cores, governor, temperature, spread.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    task: str
    workload: dict[str, Any]
    candidate: dict[str, Any]
    default: bool
    core: str
    features: tuple[str, ...]
    tvm: str
    unit: Unit
    where: str
    cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    instructions: int | None = Field(default=None, ge=0)
    failure: Failure = ""
    detail: str = ""
    when: str
    seed: int
    conditions: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        datetime.fromisoformat(self.when)
        if self.cost is not None and self.failure:
            raise ValueError(f"it has both a cost and a failure ({self.failure})")
        return self

    @property
    def id(self) -> str:
        """Identifier of the record: a hash of its content."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    @property
    def book(self) -> str:
        """Name of the file that has the records for the same core, features and TVM version."""
        return book_name(self.core, self.features, self.tvm)


def book_of(profile: Profile) -> str:
    """Return the name of the file with the records that are valid for a profile."""
    return book_name(profile.core.name, profile.features, tvm.__version__)


def book_name(core: str, features: tuple[str, ...], version: str) -> str:
    """Return the name of the file with the records for a core, a set of features and a version of TVM."""
    digest = hashlib.sha256(" ".join([version, *sorted(features)]).encode()).hexdigest()
    return f"{core}-{digest[:8]}"
