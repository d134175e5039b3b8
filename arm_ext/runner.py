# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.run`: a package on a board, its numbers checked."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.board import open_board
from arm_ext.distance import Distance, distance
from arm_ext.errors import UsageError
from arm_ext.frontends.imported import TensorSpec
from arm_ext.npu_status import NpuStatus
from arm_ext.package import Package, Selftest, load_package


@dataclass(frozen=True)
class OutputCheck:
    """One output against the self-test.

    Attributes:
        name: The output.
        expected: Distance to our own numbers, computed where the package was compiled.
        source: Distance to the source's runtime, None where that could not run the model.
        bound: Largest `expected.relative` that passes; None where only equality does.
    """

    name: str
    expected: Distance
    source: Distance | None
    bound: float | None

    @property
    def passed(self) -> bool:
        """Whether the output is as close to `expected` as it must be."""
        return self.expected.exact if self.bound is None else self.expected.relative <= self.bound


@dataclass(frozen=True)
class RunResult:
    """Outputs by name, their checks where the self-test was asked for, and where NPU regions ran if it has some."""

    outputs: dict[str, npt.NDArray[Any]]
    checks: tuple[OutputCheck, ...]
    source_runtime: str
    npu: NpuStatus | None = None


def run(
    package: str | Path | Package,
    board: str = "virtual",
    *,
    inputs: Mapping[str, npt.NDArray[Any]] | None = None,
    check: bool = False,
) -> RunResult:
    """Run a package once.

    Args:
        package: Folder, or an opened package.
        board: Such as "virtual", "local", "host:port" or "tracker-host:port/key".
        inputs: Input name → value; those left out come from the self-test.
        check: Run on the self-test's inputs and compare with its outputs.

    Raises:
        UsageError: No such package or input; a value of another shape or dtype.
        EnvError: The board is out of reach, lacks a feature that the package needs, or fails.
    """
    pkg = package if isinstance(package, Package) else load_package(package)
    if check and inputs:
        raise UsageError("--check runs on the self-test's own inputs; leave --input out")
    selftest = pkg.selftest()
    values = _inputs(pkg, selftest.inputs, inputs or {})
    (outputs,), npu = _run(pkg, board, [values])
    named = dict(zip((tensor.name for tensor in pkg.manifest.outputs), outputs, strict=True))
    checks = _check(pkg, selftest, named) if check else ()
    return RunResult(named, checks, selftest.source_runtime, npu)


def _check(
    package: Package, selftest: Selftest, outputs: Mapping[str, npt.NDArray[Any]]
) -> tuple[OutputCheck, ...]:
    bound = package.manifest.check.relative_bound
    sources = selftest.source or itertools.repeat(None)
    return tuple(
        OutputCheck(
            name=name,
            expected=distance(value, expected),
            source=None if source is None else distance(value, source),
            bound=bound if value.dtype.kind == "f" else None,
        )
        for (name, value), expected, source in zip(outputs.items(), selftest.expected, sources, strict=False)
    )


def run_many(
    package: Package, board: str, batches: Sequence[Sequence[npt.NDArray[Any]]]
) -> list[list[npt.NDArray[Any]]]:
    """Run a package on several sets of inputs, each in the model's order."""
    return _run(package, board, batches)[0]


def _run(
    package: Package, board: str, batches: Sequence[Sequence[npt.NDArray[Any]]]
) -> tuple[list[list[npt.NDArray[Any]]], NpuStatus | None]:
    """The outputs of each set of inputs, and where NPU regions ran."""
    manifest = package.manifest
    with open_board(board, profile_cpu=manifest.target.qemu_cpu) as opened:
        opened.require(manifest.target.features)
        model = opened.load(package.so)
        outputs = [model.run(values) for values in batches]
        return outputs, model.npu_status() if package.has_npu_regions else None


def accuracy(package: Package, board: str, labelled: Path) -> tuple[int, int]:
    """Classify labelled inputs and return how many were right, and how many there were.

    Args:
        package: A classifier with one input and one output.
        board: Where to run it.
        labelled: .npz with `inputs` (one more axis in front than the model's input, or as many with a batch of 1
            in the model) and integer `labels`.
    """
    spec = _single_input(package)
    try:
        with np.load(labelled, allow_pickle=False) as data:
            inputs, labels = data["inputs"], data["labels"]
    except (OSError, ValueError, KeyError) as err:
        raise UsageError(f"{labelled}: not an .npz with arrays 'inputs' and 'labels' ({err})") from err
    samples = (
        [sample.reshape(spec.shape) for sample in inputs]
        if inputs[0].size == np.prod(spec.shape)
        else list(inputs)
    )
    for sample in samples[:1]:
        if fault := spec.check(sample):
            raise UsageError(f"{labelled}: {fault}")
    results = run_many(package, board, [[sample] for sample in samples])
    right = sum(int(outputs[0].argmax() == label) for outputs, label in zip(results, labels, strict=True))
    return right, len(labels)


def _single_input(package: Package) -> TensorSpec:
    if len(package.manifest.inputs) != 1:
        raise UsageError(
            f"--accuracy takes a model with one input; this one has {len(package.manifest.inputs)}"
        )
    return package.manifest.inputs[0].spec()


def _inputs(
    package: Package, defaults: Sequence[npt.NDArray[Any]], given: Mapping[str, npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    specs = [tensor.spec() for tensor in package.manifest.inputs]
    unknown = sorted(set(given) - {spec.name for spec in specs})
    if unknown:
        names = ", ".join(spec.describe() for spec in specs)
        raise UsageError(f"--input names no input: {', '.join(unknown)}. The inputs are: {names}")
    for spec in specs:
        if spec.name in given and (fault := spec.check(given[spec.name])):
            raise UsageError(f"--input {spec.name}: {fault}")
    return [given.get(spec.name, default) for spec, default in zip(specs, defaults, strict=True)]
