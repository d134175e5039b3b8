# SPDX-License-Identifier: Apache-2.0
"""A case through the compiler and the machine at hand, and what came of it."""

import functools
import importlib.resources
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import onnx
import tvm
from hypothesis import reject

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import Profile, baseline_host
from relay_passes.rewriter.record import RewriteRecord
from tests.fuzz.graphs import Case
from tests.fuzz.groups import UndefinedError
from tests.fuzz.oracle import check_float, check_quantized


class _QuicklyBuilt(Profile):
    """The same machine, whose code LLVM does not optimise: most of a small graph's time would go there."""

    def tvm_target(self, *, optimised: bool = False) -> tvm.target.Target:
        return super().tvm_target(optimised=False)


@functools.cache
def host_profile() -> Profile:
    """This machine, its code not optimised."""
    base = baseline_host()
    return _QuicklyBuilt(**{field.name: getattr(base, field.name) for field in fields(base)})


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        fault: What is wrong, or None.
        hits: How often each rule was applied.
        definitions: What the outputs of a quantised graph were held against.
    """

    fault: str | None
    hits: Counter[str]
    definitions: Counter[str]


def outcome_of(case: Case) -> Outcome:
    """Compile and run a case, and judge its outputs; hypothesis draws another where they are not defined."""
    record = RewriteRecord()
    outputs = run(case.model, case.inputs, record)
    definitions = Counter({"float graph": 1})
    try:
        if case.quantized:
            fault, definitions = check_quantized(case.model, case.inputs, outputs)
        else:
            fault = check_float(case.model, case.inputs, outputs)
    except UndefinedError:
        reject()
    return Outcome(fault, record.hits(), definitions)


def run(
    model: onnx.ModelProto, inputs: Sequence[np.ndarray], record: RewriteRecord | None = None
) -> list[np.ndarray]:
    """The outputs of a model on this machine."""
    profile = host_profile()
    options = PhaseOptions(profile, record=record)
    planned = last(run_phases(PhaseResult(import_onnx(model).mod), options)).mod
    vm = make_program(planned, profile).machine()
    result = vm["main"](*(tvm.runtime.tensor(value) for value in inputs))
    outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [output.numpy() for output in outputs]


def lld(library: str | Path, objects: Sequence[str | Path], **_: object) -> None:
    """Link objects, as `fcompile` of export_library too."""
    linker = [str(importlib.resources.files("ziglang") / "zig"), "ld.lld"]
    subprocess.run([*linker, "-shared", "-o", library, *objects], check=True)
