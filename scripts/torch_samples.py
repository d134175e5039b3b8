#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run samples of PyTorch's own table of operators through export, import and a run on this machine.

    pip install expecttest    # which that table imports
    python scripts/torch_samples.py --jobs 2 --log samples.jsonl
    python scripts/torch_samples.py --only add,nn.functional.selu --samples 10 --verbose
    python scripts/torch_samples.py --dtypes bool,float16,bfloat16

A case is an operator with a dtype; it passes if the outputs of all of its samples are PyTorch's: integers, booleans
and shapes exactly. A sample may be refused, but not have other values or end in an internal error. Left out are samples
that PyTorch itself does not compute or export, that have no tensors, and complex or sparse ones.
Exit codes: 1 if fewer cases pass than --at-least.
"""

import os
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, TextIO

import click
import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch
from onnx_backend import Outcome, report, run_all
from rich.console import Console
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from arm_ext.common.errors import ModelError
from arm_ext.frontends.torch.export import export_module
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import run_on_host

DTYPES = ("float32", "int64")

# Sums in another order and other polynomials, of some hundred elements at most; of types with fewer bits, roundings
# between operators, too, which PyTorch leaves out in some.
RELATIVE, ABSOLUTE = 1e-4, 2e-5
HALF = 2
"""Size in bytes of float16 and bfloat16, which are compared in float32."""
_OF_HALVES = {"float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2)}
# Of an operator that has thousands of samples.
MOST_SAMPLES = 200


class Call(nn.Module):
    """Module that calls an operator with a sample's arguments; its inputs are the sample's tensors."""

    def __init__(self, operator: Any, sample: Any) -> None:
        super().__init__()
        self.operator = operator
        self.leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the sample's tensors, which are contiguous, as inputs of a model are."""
        return tuple(x.detach().clone().contiguous() for x in self.leaves if isinstance(x, Tensor))

    def forward(self, *tensors: Tensor) -> Any:
        """Return what the operator returns."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(x, Tensor) else x for x in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.operator(*args, **kwargs)


@cache
def operators() -> dict[str, Any]:
    """Return PyTorch's records of operators by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it deprecates
        from torch.testing._internal.common_methods_invocations import op_db

    return {".".join(filter(None, (op.name, op.variant_test_name))): op for op in op_db}


def cases(only: set[str] | None, dtypes: Sequence[str] = DTYPES) -> list[str]:
    """Return names of cases: operator and dtype."""
    return [
        f"{name}:{dtype}"
        for name, op in operators().items()
        for dtype in dtypes
        if (only is None or name in only) and getattr(torch, dtype) in op.dtypes
    ]


def operator_of(case: str) -> str:
    """Return the name of a case's operator."""
    return case.partition(":")[0]


def run_case(count: int, case: str) -> Outcome:
    """Run up to `count` samples of a case; return the outcome of the first that fails."""
    name, _, dtype = case.partition(":")
    refused = None
    for number, sample in samples(name, dtype, count):
        stage, why = run_sample(Call(operators()[name].op, sample).eval())
        outcome = Outcome(case, name, stage, f"sample {number}: {why}")
        if stage == "refused":
            refused = refused or outcome
        elif stage != "passed":
            return outcome
    return refused or Outcome(case, name, "passed")


def samples(name: str, dtype: str, count: int) -> Iterator[tuple[int, Any]]:
    """Yield up to `count` of an operator's samples with their numbers, spread from the first to the last."""
    torch.manual_seed(0)
    random.seed(0)
    found = operators()[name].sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)
    every = [sample for sample, _ in zip(found, range(MOST_SAMPLES), strict=False)]
    chosen = np.unique(np.linspace(0, len(every) - 1, min(count, len(every))).astype(int))
    return ((int(number), every[number]) for number in chosen)


def run_sample(call: Call) -> tuple[str, str]:
    """Return the stage that a sample reaches, and why it gets no further."""
    inputs = call.tensors()
    try:
        with torch.no_grad():
            outputs = call(*(x.clone() for x in inputs))
        wanted = [x for x in pytree.tree_leaves(outputs) if isinstance(x, Tensor)]
        if not inputs or any(x.is_complex() or x.layout != torch.strided for x in (*inputs, *wanted)):
            return "passed", ""
        program = export_module(call, inputs)
    except Exception:  # PyTorch does not compute it, or does not export it
        return "passed", ""
    try:
        model = import_torch(program)
        values = dict(zip(program.graph_signature.user_inputs, inputs, strict=True))
        got = run_on_host(model.mod, [array_of(values[x.name]) for x in model.inputs])
    except ModelError as err:
        return "refused", str(err)
    except Exception as err:
        return "defect", f"{type(err).__name__}: {err}"
    fault = difference(got, [array_of(x) for x in wanted])
    return ("passed", "") if fault is None else ("values", fault)


def array_of(x: Tensor) -> npt.NDArray[Any]:
    """Return a tensor as an array; numpy has bfloat16 from another package."""
    x = x.resolve_neg()
    return x.view(torch.uint16).numpy().view(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.numpy()


def difference(got: Sequence[npt.NDArray[Any]], wanted: Sequence[npt.NDArray[Any]]) -> str | None:
    """Return how outputs differ from PyTorch's, or None."""
    if [(x.shape, x.dtype) for x in got] != [(x.shape, x.dtype) for x in wanted]:
        return f"{[(x.shape, str(x.dtype)) for x in got]}, not {[(x.shape, str(x.dtype)) for x in wanted]}"
    for k, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        if theirs.dtype.kind in "biu":
            same = ours == theirs
        else:
            relative, absolute = _OF_HALVES.get(str(theirs.dtype), (RELATIVE, ABSOLUTE))
            ours, theirs = (x.astype(np.float32) if x.dtype.itemsize == HALF else x for x in (ours, theirs))
            largest = np.max(np.abs(theirs), initial=1, where=np.isfinite(theirs))
            same = np.isclose(ours, theirs, relative, absolute * largest, equal_nan=True)
        if not np.all(same):
            place = tuple(np.argwhere(~same)[0])
            return f"output {k}: {np.sum(~same)} of {same.size} differ, such as {ours[place]}, not {theirs[place]}"
    return None


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--jobs", type=click.IntRange(min=1), default=len(os.sched_getaffinity(0)))
@click.option("--only", help="Operators as PyTorch's table names them, separated by commas.")
@click.option("--dtypes", default=",".join(DTYPES), help="Separated by commas.", show_default=True)
@click.option("--samples", "count", type=click.IntRange(min=1), default=2, help="At most, of each operator.")
@click.option("--verbose", is_flag=True, help="List each case that fails.")
@click.option("--at-least", type=int, default=0, help="Fail below this number of cases passed.")
@click.option("--log", type=click.File("a"), help="Write a line of JSON for each case as it is done.")
def main(
    jobs: int, only: str | None, dtypes: str, count: int, verbose: bool, at_least: int, log: TextIO | None
) -> None:
    """Run cases and print how many pass and why the others do not."""
    chosen = cases(None if only is None else set(only.split(",")), dtypes.split(","))
    outcomes = run_all(chosen, partial(run_case, count), operator_of, jobs, Console(stderr=True), log)
    sys.exit(report(outcomes, verbose) < at_least)


if __name__ == "__main__":
    main()
