# SPDX-License-Identifier: Apache-2.0
"""What an agent may do by `arm-ext mcp`: the verbs, with short answers, and with all that is written in one folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arm_ext.api.advise import advise
from arm_ext.api.compare import compare
from arm_ext.api.compile import compile as compile_model
from arm_ext.api.explain import explain
from arm_ext.api.profile import profile
from arm_ext.api.run import run
from arm_ext.board.spec import parse_spec
from arm_ext.common.errors import UsageError
from arm_ext.frontends.supported import SUPPORTED
from arm_ext.package import load_package
from arm_ext.report.page import render
from arm_ext.report.report import CompileReport
from arm_ext.target.family import family_levels
from arm_ext.target.profiles import FAMILY, PROFILES

Document = dict[str, Any]
Sizes = Mapping[str, Sequence[int]]

INSTRUCTIONS = """\
Compile models (ONNX, TFLite, StableHLO, .pt2) for 64-bit Arm Linux, check them, and tell what costs and what helps.
Begin with `compile`, then `check` the package. Speed is of an emulator and of models: instructions are exact, cycles
are estimates for one core. Never turn either into milliseconds, and never call them measured on a board."""

_MOST = 10
"""Rows of a list in an answer; files and the other verbs have all."""


@dataclass(frozen=True)
class AgentTools:
    """The tools of an agent.

    Attributes:
        folder: Folder that everything is written to; paths of outputs are relative to it.
    """

    folder: Path

    def compile(
        self,
        model: str,
        output: str,
        target: str = "arm",
        shapes: Sizes | None = None,
        npu: str | None = None,
        precision: str = "fp32",
    ) -> Document:
        """Compile a model file into a package; the answer is its page: layers, sizes, what would help.

        `output` is a folder's name, relative to the server's folder. `shapes` gives sizes of dynamic inputs. `npu` is
        an Ethos-U such as ethos-u65-256, for a quantised model. `precision` is fp32, fp16 or bf16.
        """
        result = compile_model(
            model, target, self._inside(output), shapes=shapes, npu=npu, precision=precision
        )
        manifest = result.package.manifest
        return {
            "package": str(result.package.path),
            "bytes": sum(file.bytes for file in manifest.files),
            "memory": manifest.memory.model_dump(exclude={"widest"}),
            "page": render(result.report),
        }

    def report(self, package: str) -> Document:
        """Return a package's page: layers, sizes, what is generic or in float and why, what would help."""
        return {"page": render(load_package(self._package(package)).report(CompileReport))}

    def check(self, package: str, board: str = "virtual") -> Document:
        """Run a package once and compare its outputs with the self-test and with the model's own runtime."""
        result = run(self._package(package), _emulated(board), check=True)
        return {
            "source_runtime": result.source_runtime,
            "outputs": [
                {
                    "name": each.name,
                    "type": each.type,
                    "passed": each.passed,
                    "bound": each.bound,
                    "difference": None if each.source is None else each.source.relative,
                }
                for each in result.checks
            ],
            "warnings": list(result.warnings),
        }

    def explain(self, model: str, target: str = "arm", shapes: Sizes | None = None) -> Document:
        """Tell what became of a model's layers, what each rewrite saves, and what the costliest missed ones miss."""
        report = explain(model, target=target, shapes=shapes)
        places = [(rule, place) for rule in report.rules for place in (*rule.rejected, *rule.near_misses)]
        places.sort(key=lambda found: -found[1].gain)
        missed = [
            {"rule": rule.rule, "layer": place.anchor, "may_save": place.gain, "why": place.diagnostic.why()}
            for rule, place in places[:_MOST]
        ]
        applied = sorted((rule for rule in report.rules if rule.saved), key=lambda rule: -(rule.saved or 0))
        rewrites = [{"rule": r.rule, "effect": r.effect, "saved": r.saved} for r in applied[:_MOST]]
        return {
            "cycles_with_caches": report.cycles_with_caches,
            "layers": [fate.model_dump() for fate in report.fates],
            "rewrites": rewrites,
            "missed": missed,
        }

    def profile(self, package: str, board: str = "virtual") -> Document:
        """Count what each call of a package executes on an emulated core; the costliest calls first, with bounds."""
        report = profile(self._package(package), _emulated(board))
        calls = [
            {
                "layer": call.anchor,
                "kernel": call.kernel,
                "output": call.output,
                "share": call.share,
                "cycles_with_caches": None if call.counts is None else call.counts.cycles_with_caches,
                "bound": None if call.counts is None else call.counts.bound,
            }
            for call in report.costliest()[:_MOST]
        ]
        return {
            "core": report.core,
            "instructions": report.instructions,
            "cycles_with_caches": report.cycles_with_caches,
            "calls": calls,
            "note": report.note,
        }

    def advise(self, model: str, target: str = "arm", shapes: Sizes | None = None) -> Document:
        """Build and measure what could make a model faster: options, layers in int8, changes of the model."""
        report = advise(model, target=target, shapes=shapes)
        document = report.model_dump(include={"cost", "recommended", "gain", "error", "advice", "note"})
        options = [a.model_dump(include={"name", "gain", "error", "note"}) for a in report.alternatives]
        return {**document, "alternatives": options[:_MOST]}

    def compare(self, model: str, against: str, board: str = "virtual") -> Document:
        """Count an inference of a model file here and in other runtimes: `against` is onnxruntime, litert or both."""
        report = compare(model, against, board)
        columns = {
            "runtime",
            "version",
            "instructions",
            "cycles_with_caches",
            "instruction_ratio",
            "cycle_ratio",
        }
        return {
            "rows": [
                row.model_dump(include={*columns, "binary_bytes", "weight_bytes"}) for row in report.rows
            ],
            "absent": [each.model_dump() for each in report.absent],
            "note": report.note,
        }

    def targets(self) -> Document:
        """List the targets, with their cores, and the operators' formats that `operators` takes."""
        return {
            "targets": {name: profile.core.name for name, profile in PROFILES.items()},
            "families": {FAMILY: [level.name for level in family_levels()]},
            "formats": list(SUPPORTED),
        }

    def operators(self, format: str) -> Document:
        """List the operators that models of a format may have: onnx, pytorch, tflite or stablehlo."""
        if format not in SUPPORTED:
            raise UsageError(f"format: {format!r} is none of {', '.join(SUPPORTED)}")
        return {"operators": SUPPORTED[format]()}

    def _package(self, name: str) -> Path:
        """Return the path of a package, which may be named as `compile` was told."""
        path = self.folder / name
        return path if path.is_dir() else Path(name)

    def _inside(self, output: str) -> Path:
        """Return the path of an output.

        Raises:
            UsageError: It is not in the folder.
        """
        root = self.folder.resolve()
        try:
            path = (root / output).resolve()
        except (OSError, ValueError) as error:
            raise UsageError(f"output: {output!r} is no name of a folder ({error})") from error
        if path == root or not path.is_relative_to(root):
            raise UsageError(
                f"output: {output!r} is not in the folder {root}, which is all that may be written to"
            )
        return path


def _emulated(board: str) -> str:
    """Return the name of an emulated board.

    Raises:
        UsageError: It is another, on which an agent would run programs.
    """
    if parse_spec(board).kind != "virtual":
        raise UsageError(
            f"board: {board!r} is a real one; agents have emulated boards alone, such as virtual"
        )
    return board
