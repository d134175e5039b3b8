# SPDX-License-Identifier: Apache-2.0
"""The table that compares a package with its peers, as records."""

from typing import Literal

from arm_ext.common.json_record import ClosedRecord

NOTE = (
    "One warm inference on one thread, counted between the same two marks on one emulator. Cycles are of models "
    "(llvm-mca, and caches of the core's sizes): they compare programs for one core, and are no time on a board. A "
    "ratio is the row's number over "
    "tvm-arm-ext's. `empty` is what the runtime takes for a model that computes nothing, its call from Python "
    "included; it is part of the row. Elapsed are the instructions from begin to end on the thread that calls, of "
    "threads that keep step, without the kernel's. Binary is what is loaded to run a model, without the weights; "
    "weights are as the runtime is given them."
)


class InferenceCounts(ClosedRecord):
    """Counts of one inference.

    Attributes:
        libraries: Dynamic instructions of each library, and of the interpreter of a peer; most first.
        estimated_cycles: Estimated cycles of the inference as if all loads hit L1.
        cycles_with_caches: The same with those in which caches fetch.
    """

    libraries: dict[str, int]
    estimated_cycles: int
    cycles_with_caches: int

    @property
    def instructions(self) -> int:
        """Dynamic instructions of all libraries."""
        return sum(self.libraries.values())


class Scaling(ClosedRecord):
    """Figures of an inference on several threads.

    Attributes:
        elapsed_instructions: Instructions of the calling thread from begin to end of the inference, those while the
            thread waits for others among them; all threads keep step.
        speedup: Instructions of an inference on one thread over `elapsed_instructions`.
        ratio: `elapsed_instructions` over those of tvm-arm-ext.
    """

    elapsed_instructions: int
    speedup: float
    ratio: float


class Row(ClosedRecord):
    """Result of one runtime; all figures except `scaling` are of one thread.

    Attributes:
        runtime: Name of the runtime, such as "onnxruntime".
        version: Version of its wheel.
        instructions: Executed instructions per inference.
        macs_per_instruction: The model's multiply-accumulates over `instructions`.
        cycles_with_caches: Estimated cycles per inference, those in which caches fetch included.
        estimated_cycles: The same as if all loads hit L1.
        instruction_ratio: `instructions` over those of tvm-arm-ext.
        cycle_ratio: `cycles_with_caches` over those of tvm-arm-ext.
        binary_bytes: Shared libraries loaded to run a model, without the model's weights.
        weight_bytes: Constants of the model as the runtime is given them.
        empty_instructions: Executed instructions for a model that computes nothing, which include the call
            from Python; None if not measured.
        distance: Largest difference of an output from tvm-arm-ext's, relative to the largest there (units, for
            integers); None if it ran a file and inputs of its own.
        libraries: Dynamic instructions of each library.
        scaling: Figures on several threads; None if these were not counted.
    """

    runtime: str
    version: str
    instructions: int
    macs_per_instruction: float
    cycles_with_caches: int
    estimated_cycles: int
    instruction_ratio: float
    cycle_ratio: float
    binary_bytes: int
    weight_bytes: int
    empty_instructions: int | None
    distance: float | None
    libraries: dict[str, int]
    scaling: Scaling | None = None

    def scaled(self, elapsed: int | None, ours: int | None) -> "Row":
        """Return a copy of the row with the figures on several threads.

        Args:
            elapsed: The runtime's instructions from begin to end on several threads; None if these were not counted.
            ours: Instructions of tvm-arm-ext from begin to end on as many threads; None likewise.
        """
        if elapsed is None or ours is None:
            return self
        scaling = Scaling(
            elapsed_instructions=elapsed, speedup=self.instructions / elapsed, ratio=elapsed / ours
        )
        return self.model_copy(update={"scaling": scaling})


class Absent(ClosedRecord):
    """A runtime that the table has no row for, and the reason."""

    runtime: str
    reason: str


class Comparison(ClosedRecord):
    """The result of `bench --against`; its first row is tvm-arm-ext's.

    Attributes:
        threads: Threads of the rows' `scaling`; 1 without any.
    """

    schema_version: Literal[3] = 3
    kind: Literal["comparison"] = "comparison"
    model: str
    target: str
    features: list[str]
    cpu: str
    core: str
    cycle_model: str
    threads: int
    macs: int
    rows: list[Row]
    absent: list[Absent]
    note: str = NOTE


def row(
    runtime: str,
    version: str,
    counts: InferenceCounts,
    *,
    ours: InferenceCounts,
    macs: int,
    binary_bytes: int,
    weight_bytes: int,
    empty_instructions: int | None = None,
    distance: float | None = None,
) -> Row:
    """Return a runtime's counts, and their ratios to those of this package's model."""
    return Row(
        runtime=runtime,
        version=version,
        instructions=counts.instructions,
        macs_per_instruction=macs / counts.instructions,
        cycles_with_caches=counts.cycles_with_caches,
        estimated_cycles=counts.estimated_cycles,
        instruction_ratio=counts.instructions / ours.instructions,
        cycle_ratio=counts.cycles_with_caches / ours.cycles_with_caches,
        binary_bytes=binary_bytes,
        weight_bytes=weight_bytes,
        empty_instructions=empty_instructions,
        distance=distance,
        libraries=counts.libraries,
    )
