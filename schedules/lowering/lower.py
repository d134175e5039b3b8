# SPDX-License-Identifier: Apache-2.0
"""Lowering of a composite Relax function to a PrimFunc: parsing, kernel selection, and building."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol

from tvm import relax, target, tirx

from schedules.composites.one_axis import as_called, widened
from schedules.composites.vocabulary import VOCABULARY
from schedules.composites.workload import Composite, Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import Array, Kernel, declined
from schedules.lowering.parse import Routines, parse
from schedules.select import Choice, Choose, Rejected, kernel_named, select
from schedules.tir.emit import in_root_block


class Cached(Protocol):
    """Interface of a cache of kernel choices and PrimFuncs of the kernels in `KERNELS`; it computes missing ones."""

    def select(self, workload: Workload, core: Core, without: Collection[str] = ()) -> Choice | Rejected:
        """Return the result of `schedules.select.select` for these arguments."""

    def stub(self, kernel: str, workload: Workload, params: Any, on: target.Target) -> tirx.PrimFunc:
        """Return the PrimFunc that `built` returns for these arguments, or a copy of it without the body."""


@dataclass(frozen=True)
class Lowered:
    """The result of lowering a composite: a PrimFunc, its packed constants, and the choice of kernel.

    Attributes:
        func: The PrimFunc; its arguments are the composite's parameters in order, then `constants`, then the output,
            for `R.call_tir(gv, (*params, *constants), out_ty)`. Consecutive equal kernels share one object.
        constants: The composite's constants, packed as the kernel reads them.
        choice: The chosen kernel, its parameters and the reason.
    """

    func: tirx.PrimFunc
    constants: tuple[Array, ...]
    choice: Choice


def lower(
    composite: relax.Function,
    target: target.Target,
    core: Core,
    choose: Choose | None = None,
    routines: Routines = MappingProxyType({}),
    without: Collection[str] = (),
    more: Sequence[Kernel] = (),
    cached: Cached | None = None,
) -> Lowered | Rejected:
    """Lower one composite to a PrimFunc.

    Args:
        composite: The composite function, as formed by `FuseOpsByPattern(bind_constants=True)`; its "Composite"
            attribute is the name of a spec in `VOCABULARY`.
        target: Target that the PrimFunc is built for; it becomes the function's "target" attribute.
        core: The core for which kernels are selected.
        choose: Returns kernel parameters that override the estimates, or None.
        routines: The routines that the composite calls by call_tir, by name.
        without: Names of kernels that must not be used.
        more: Kernels to select from in addition to `KERNELS`.
        cached: Cache that replaces `select` and `built` for the kernels in `KERNELS`.

    Returns:
        The lowered kernel, or the rejections of all kernels.

    Raises:
        ValueError: The composite is not in the vocabulary, or does not match its spec.
    """
    parsed = read(composite, routines)
    if isinstance(parsed, Diagnostic):
        return Rejected((parsed,))
    if not parsed.workload.inputs:
        return Rejected((declined("any", "all operands are constants", "an operand of the run", "none"),))
    wide = widened(parsed)
    if cached is None or choose is not None or more:
        choice = select(wide.workload, core, choose, without, more)
    else:
        choice = cached.select(wide.workload, core, without)
    if isinstance(choice, Rejected):
        return choice
    kernel = kernel_named(choice.kernel, more)
    if cached is not None and wide is parsed and not more:
        func = cached.stub(choice.kernel, parsed.workload, choice.params, target)
    else:
        func = built(choice.kernel, wide.workload, choice.params, target, tuple(more))
    if wide is not parsed:
        func = as_called(func, parsed.workload)
    return Lowered(func, kernel.pack(wide.workload, choice.params, wide.constants), choice)


# Cached, because consecutive layers often have equal shapes, and emitting a kernel creates thousands of nodes.
@lru_cache(64)
def built(
    kernel: str, workload: Workload, params: Any, target: target.Target, more: tuple[Kernel, ...] = ()
) -> tirx.PrimFunc:
    """Return the PrimFunc of the kernel with this name, for a workload that it accepts and parameters."""
    return in_root_block(kernel_named(kernel, more).build(workload, params)).with_attr("target", target)


def read(composite: relax.Function, routines: Routines = MappingProxyType({})) -> Composite | Diagnostic:
    """Parse a composite by the spec in its "Composite" attribute; for arguments and errors see `lower`."""
    name = str(composite.attrs["Composite"])
    spec = next((spec for spec in VOCABULARY if spec.name == name), None)
    if spec is None:
        raise ValueError(
            f"composite {name!r} is not in the vocabulary: {', '.join(s.name for s in VOCABULARY)}"
        )
    return parse(composite, spec, routines)
