# SPDX-License-Identifier: Apache-2.0
"""Candidates of tuning, each a kernel with its parameters: as a value, as JSON, and as the function to build.

A kernel emits TensorIR from its frozen `Params` and has no schedule that a MetaSchedule trace could replay, so that the
parameters themselves are searched, measured and kept. For loops that no kernel takes, a trace is the parameter.
"""

import dataclasses
import hashlib
import json
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from tvm import target, tirx

from arm_ext.tune.kernels import kernel_named
from schedules.composites.workload import Magnitude, Workload
from schedules.kernels.common.contract import Array
from schedules.select import Choice
from schedules.tir.emit import in_root_block

KEY_DIGITS = 16
"""Hex digits of a workload's key: 64 bits, for databases of millions."""


LONG = 200
"""Greatest number of characters of a value in tables."""


@dataclass(frozen=True)
class Candidate:
    """One way to compute a workload.

    Attributes:
        kernel: Name of a kernel of `arm_ext.tune.kernels`.
        params: An instance of its `Params`.
    """

    kernel: str
    params: Any

    @classmethod
    def of(cls, choice: Choice) -> "Candidate":
        """Return the candidate for a choice of `select`."""
        return cls(choice.kernel, choice.params)

    def encode(self) -> dict[str, Any]:
        """Convert the candidate to JSON data."""
        return {"kernel": self.kernel, "params": dataclasses.asdict(self.params)}

    @classmethod
    def decode(cls, data: dict[str, Any]) -> "Candidate":
        """Return the candidate that `encode` converted to JSON data.

        Raises:
            ValueError: This version has no such kernel, or the kernel has no such parameters.
        """
        try:
            kernel = kernel_named(data["kernel"])
            return cls(kernel.NAME, _decoded(kernel.Params, data["params"]))
        except (StopIteration, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no kernel of this version has {json.dumps(data)}") from error

    def text(self) -> str:
        """Return the candidate as text for tables: "gemm_s8_mmla row_pairs 6, column_pairs 4".

        Long values are digests.
        """
        values = ", ".join(
            f"{name} {_short(value)}" for name, value in dataclasses.asdict(self.params).items()
        )
        return f"{self.kernel} {values}".rstrip()


def renewed(data: dict[str, Any]) -> dict[str, Any]:
    """Return a candidate's JSON data in this version's form, with default values for parameters added since."""
    try:
        return Candidate.decode(data).encode()
    except ValueError:
        return data


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONG else hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def build(
    workload: Workload, candidate: Candidate, constants: Sequence[Array], on: target.Target
) -> tuple[tirx.PrimFunc, tuple[Array, ...]]:
    """Return the function of a candidate, and its constants in the layout that the function reads.

    Args:
        workload: The workload to compute.
        candidate: Kernel and parameters.
        constants: Constants of the composite, in the order of `Operand.index`.
        on: Becomes the function's "target".

    Returns:
        A function of the workload's inputs, the packed constants and the output; and the packed constants.

    Raises:
        ValueError: The kernel cannot compute the workload with these parameters.
    """
    kernel = kernel_named(candidate.kernel)
    func = in_root_block(kernel.build(workload, candidate.params)).with_attr("target", on)
    return func, kernel.pack(workload, candidate.params, constants)


def encode_workload(workload: Workload) -> dict[str, Any]:
    """Convert a workload to JSON data.

    Newer fields at their default are left out, so that older records still match.
    """
    data = dataclasses.asdict(workload)
    if workload.nonzeros is None:
        del data["nonzeros"]
    if workload.magnitude is not None and workload.magnitude.span == Magnitude.span:
        del data["magnitude"]["span"]
    return data


def decode_workload(data: dict[str, Any]) -> Workload:
    """Return the workload that `encode_workload` converted to JSON data.

    Raises:
        ValueError: The data is of another version of `Workload`.
    """
    try:
        found = _decoded(Workload, data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no workload of this version: {error}") from error
    return found  # type: ignore[no-any-return]  # _decoded gives what the hint says


def key_of(workload: Workload) -> str:
    """Return a workload's key, a hash that is the same in each run and on each machine."""
    text = json.dumps(encode_workload(workload), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def _decoded(hint: Any, value: Any) -> Any:
    """Return JSON data as an instance of a type hint: dataclasses from objects, tuples from lists."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(
            (h for h in get_args(hint) if dataclasses.is_dataclass(h) or get_origin(h) is tuple), None
        )
    if value is None or hint is None:
        return value
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{name: _decoded(hints[name], part) for name, part in value.items()})  # type: ignore[operator]
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        hints_of = parts[:1] * len(value) if parts[-1:] == (...,) else parts
        return tuple(_decoded(each, part) for each, part in zip(hints_of, value, strict=True))
    return value
