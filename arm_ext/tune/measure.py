# SPDX-License-Identifier: Apache-2.0
"""The interface of all measurers of candidates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from arm_ext.tune.candidate import Candidate
from arm_ext.tune.record import Failure, Unit
from arm_ext.tune.task import Task


@dataclass(frozen=True)
class Result:
    """Result of the measurement of a candidate; see `Record` for the common fields.

    Attributes:
        cost: Cost in the measurer's unit; None if it failed.
        instructions: Number of instructions, where they were counted.
        failure: "" if there is a cost.
        detail: The failure's message.
        conditions: Conditions that the cost depends on.
    """

    cost: float | None
    instructions: int | None = None
    failure: Failure = ""
    detail: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)


OnResult = Callable[[int, Result], None]
"""Function that is called with a candidate's place in the batch and its result, as soon as that is known."""


def ignore(_index: int, _result: Result) -> None:
    """Ignore a result; the default callback."""


class Measurer(Protocol):
    """Builds candidates, checks their values and measures them.

    Attributes:
        unit: Unit of the costs.
        where: The board, or the model that estimates cycles.
    """

    unit: Unit
    where: str

    def measure(self, batch: Sequence[tuple[Task, Candidate]], on_result: OnResult = ignore) -> list[Result]:
        """Measure a batch, several at a time if it can.

        Args:
            batch: The candidates to measure.
            on_result: Called for each, in the order in which they are done.

        Returns:
            A result for each, in the order of the batch.

        Raises:
            EnvError: No candidate can be measured: no board is left, or this machine lacks something.
        """
