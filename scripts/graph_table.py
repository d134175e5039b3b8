#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print what the graph passes make of ONNX models, as Markdown.

    python scripts/zoo.py build/zoo
    python scripts/graph_table.py build/zoo/*.onnx

Operators are calls: a composite, such as a convolution with its bias and relu, counts as one. Seconds are those of
the passes alone, without import and code generation.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import tvm
from tables import markdown, measured
from tvm.ir import Call, Op

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import resolve
from relay_passes.ir.sources import bindings_of, relax_functions
from schedules.diagnostic import Diagnostic

LAST = "fuse"  # the last phase that is a pass over the graph
COLUMNS = ("model", "nodes", "operators", "after", "transposes", "QDQ left", "float left", "seconds")


@dataclass(frozen=True)
class Row:
    """Operators of one model before and after the passes.

    Attributes:
        model: Name of the model.
        nodes: Number of source nodes.
        before: Operators as imported.
        after: Operators and composites after the last pass.
        transposes: permute_dims among these, those inside composites too.
        qdq: quantize and dequantize among these.
        seconds: Seconds that the passes took.
        left_float: Operators of a quantised model that compute in float; None for a float model.
    """

    model: str
    nodes: int
    before: int
    after: int
    transposes: int
    qdq: int
    seconds: float
    left_float: tuple[Diagnostic, ...] | None

    def cells(self) -> tuple[str, ...]:
        """Return the cells in the order of COLUMNS."""
        left = "-" if self.left_float is None else str(len(self.left_float))
        counts = (self.nodes, self.before, self.after, self.transposes, self.qdq)
        return (self.model, *map(str, counts), left, f"{self.seconds:.2f}")


def measure(path: Path) -> Row:
    """Import a model and run the passes over it."""
    imported = import_onnx(path)
    start = time.perf_counter()
    result = last(run_phases(PhaseResult(imported.mod), PhaseOptions(resolve("arm")), until=LAST))
    seconds = time.perf_counter() - start
    fused = result.mod
    everywhere = sum((_operators(fused, str(gv.name_hint)) for gv, _ in relax_functions(fused)), Counter())
    return Row(
        model=imported.name,
        nodes=len(imported.nodes),
        before=_operators(imported.mod, "main").total(),
        after=_operators(fused, "main").total(),
        transposes=everywhere["relax.permute_dims"],
        qdq=everywhere["relax.quantize"] + everywhere["relax.dequantize"],
        seconds=seconds,
        left_float=result.left_float if imported.quantized else None,
    )


def _operators(mod: tvm.IRModule, function: str) -> Counter[str]:
    """Return the number of a function's calls by operator; calls of composites are counted together."""
    calls = (binding.value for binding in bindings_of(mod[function]))
    return Counter(
        str(call.op.name) if isinstance(call.op, Op) else "composite"
        for call in calls
        if isinstance(call, Call)
    )


def table(rows: list[Row]) -> str:
    """Return the rows, and after them why operators of quantised models compute in float."""
    text = markdown(COLUMNS, (row.cells() for row in rows))
    for row in rows:
        if row.left_float:
            text += f"\n{row.model} computes in float:\n\n"
            text += "".join(f"- {count}x {why}\n" for why, count in _reasons(row.left_float))
    return text


def _reasons(left: tuple[Diagnostic, ...]) -> list[tuple[str, int]]:
    return Counter(f"{call.operator}: {call.why()}" for call in left).most_common()


def main() -> None:
    """Print the table; a model that cannot be imported is reported at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.onnx")
    rows, failed = measured(parser.parse_args().models, lambda path: [measure(path)])
    sys.stdout.write(table(rows))
    sys.exit(failed)


if __name__ == "__main__":
    main()
