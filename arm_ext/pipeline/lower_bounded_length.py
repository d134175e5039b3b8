# SPDX-License-Identifier: Apache-2.0
"""Lowering of models of bounded length: each function gets the best variant that its kernel supports.

any length    the kernels made for some lengths are the same but for numbers: nothing is lost
chunks        rows are computed each by itself: a kernel of some rows, over as many chunks as it takes
loops         plain loops, without a schedule
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr, PrimType, Var
from tvm_ffi import structural_map

from arm_ext.target.profiles import Profile
from relay_passes.batching.batch_axes import Samples
from relay_passes.batching.batch_independence import find_row_axes
from relay_passes.ir.sizes import value_of
from relay_passes.ir.sources import bindings_of
from relay_passes.lengths.fix_length import dims_of, fixed, fixed_composite, length_of, takes_length
from relay_passes.lengths.merge_functions import DifferentError
from relay_passes.lengths.merge_lengths import merge_functions
from schedules import generic
from schedules.composites.one_axis import widened
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import declined
from schedules.kernels.common.row_chunks import RowArgument, in_chunks
from schedules.kernels.common.threads import PARALLEL_CYCLES
from schedules.lowering.lower import Lowered, lower, read
from schedules.select import Choice, Choose, Known, Rejected, select

PROBES = (3, 7, 42)
"""Lengths whose kernels are compared: with and without a tail of most register tiles, short and long."""

CHUNKS = (8, 12, 16, 24, 32, 48)
"""Rows of a chunk: multiples of the rows of register tiles."""

_PROOF_ROWS = 5

_PARALLEL_CYCLES = 8 * PARALLEL_CYCLES
"""Cycles at the greatest length from which chunks are spread over threads, so that an eighth of it is worth it, too."""

ANY, CHUNKED, LOOPS = "any length", "in chunks", "loops of any length"


@dataclass
class Lengths:
    """Lowers functions whose length is a variable.

    Attributes:
        mod: The module of a variable length after the phase `fuse`.
        largest: The greatest length.
        profile: The target.
        without: Names of kernels that are not to be used.
        chunked: Set while lowering: whether some kernel reads and writes a whole chunk of rows even if fewer
            are left.
    """

    mod: tvm.IRModule
    largest: int
    profile: Profile
    without: Collection[str] = ()
    chunked: bool = field(default=False, init=False)
    _of_fixed_lengths: set[str] = field(default_factory=set, init=False)
    """Kernels that were not the same for some lengths; looking again takes seconds."""

    def lower(self, name: str, choose: Choose | None) -> Lowered | Rejected:
        """Lower a composite."""
        if length_of(self.mod[name]) is None:
            return self._at(name, 0, choose)
        most = value_of(self._length(name), self.largest)
        best = self._at(name, most, choose)
        if isinstance(best, Rejected):
            return best
        if best.choice.kernel not in self._of_fixed_lengths:
            if found := self._any_length(name, best):
                return found
            self._of_fixed_lengths.add(best.choice.kernel)
        return self._in_chunks(name, best, most, choose)

    def schedule(self, func: tirx.PrimFunc, _choose: Choose | None) -> tuple[generic.Scheduled, str]:
        """Schedule loops that no kernel takes; tuning records do not apply, since they are for fixed sizes."""
        return self._scheduled(func), ""

    def as_called(self, name: str) -> relax.Function:
        """Return a composite with its length variable replaced by `main`'s, for inlining."""
        func = self.mod[name]
        variable = length_of(func)
        if variable is None:
            return func
        length = self._length(name)
        return structural_map(func, [(Var, lambda var: length if var.same_as(variable) else var)])

    def inlined(self, caller: relax.Function) -> relax.Function:
        """Return a function with the length variables of inlined composites replaced by its own."""
        own = length_of(caller)

        def mine(var: Var) -> Var:
            return own if isinstance(var.ty, PrimType) and not var.same_as(own) else var

        return structural_map(caller, [(Var, mine)])

    def _scheduled(self, func: tirx.PrimFunc) -> generic.Scheduled:
        isa = self.profile.core.isa
        if length_of(func) is None:
            return generic.schedule(func, isa)
        if takes_length(func):
            return _loops(func, "no size of its tensors is the length alone")
        done = [generic.schedule(fixed(func, length), isa) for length in PROBES]
        if any(each.cycles is None for each in done):
            return replace(done[-1], func=func, done=f"{LOOPS}, {done[-1].done}")
        try:
            one = merge_functions([each.func for each in done], PROBES, "length")
        except DifferentError:
            return _loops(func, "its schedule is another one for another length")
        said = done[-1].done.replace(f"rows of {PROBES[-1]}", "rows")
        return replace(done[-1], func=one, done=f"{ANY}: {said}")

    def _length(self, name: str) -> Expr:
        """Return the length with which a composite is called; it may differ from the model's length."""
        variable = length_of(self.mod[name])
        for binding in bindings_of(self.mod["main"]):
            call = binding.value
            if isinstance(call, Call) and getattr(call.op, "name_hint", "") == name:
                for param, arg in zip(self.mod[name].params, call.args, strict=True):
                    for own, dim in zip(dims_of(param.ty), dims_of(arg.ty), strict=True):
                        if own.same_as(variable):
                            return dim
        raise AssertionError(f"nothing calls {name}")

    def _at(self, name: str, length: int, choose: Choose | None) -> Lowered | Rejected:
        func, routines = self._fixed(name, length)
        profile = self.profile
        return lower(func, profile.tvm_target(), profile.core, choose, routines, self.without)

    def _estimate(self, name: str, length: int, choose: Choose) -> float:
        """Return the cycles of a composite's kernel at a length; infinity if no kernel supports it."""
        composite = read(*self._fixed(name, length))
        if isinstance(composite, Diagnostic):
            return math.inf
        choice = select(widened(composite).workload, self.profile.core, choose, self.without)
        return choice.estimate if isinstance(choice, Choice) else math.inf

    def _fixed(self, name: str, length: int) -> tuple[relax.Function, dict[str, tirx.PrimFunc]]:
        mod = fixed_composite(self.mod, name, length)
        return mod["main"], {
            gv.name_hint: f for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)
        }

    def _any_length(self, name: str, best: Lowered) -> Lowered | None:
        """Return the kernel that is best for the maximum length, for any length.

        None if the best kernels differ too much.
        """
        known = Known(best.choice.params, "")
        made = []
        try:
            for length in PROBES:
                probe = self._at(name, length, lambda _workload, _core: known)
                if isinstance(probe, Rejected) or not _same_constants(best, probe):
                    return None
                made.append(probe.func)
            func = merge_functions(made, PROBES, "length")
        except (ValueError, DifferentError):
            return None
        return replace(best, func=func, choice=replace(best.choice, reason=f"{best.choice.reason}; {ANY}"))

    def _in_chunks(self, name: str, best: Lowered, most: int, choose: Choose | None) -> Lowered | Rejected:
        """Return a kernel that computes a composite's rows in chunks, if each row is computed independently."""
        rows = self._rows(name)
        if isinstance(rows, str):
            return Rejected((declined("-", rows, "a fixed length", "one known at run time"),))
        chosen = self._on_one_thread(choose)
        options = sorted({min(chunk, most) for chunk in CHUNKS})
        chunk = min(options, key=lambda chunk: _cost(chunk, self._estimate(name, chunk, chosen), most))
        made = self._at(name, chunk, chosen)
        if isinstance(made, Rejected):
            return made
        arguments = [
            RowArgument(tuple(shape), 0 if place is None else _row(shape, place)) for shape, place in rows
        ]
        arguments[-1:-1] = [RowArgument(constant.shape, 0) for constant in made.constants]
        parallel = made.choice.estimate * -(-most // chunk) >= _PARALLEL_CYCLES
        func = in_chunks(made.func, arguments, length_of(self.mod[name]), chunk, parallel=parallel)
        self.chunked = True
        reason = f"{made.choice.reason}; {CHUNKED} of {chunk} rows"
        return replace(made, func=func, choice=replace(made.choice, reason=reason))

    def _on_one_thread(self, choose: Choose | None) -> Choose:
        """Return a choice of single-threaded kernels for chunks, since each thread computes complete chunks."""

        def chosen(workload: Workload, core: Core) -> Known | None:
            choice = select(workload, core, choose, self.without)
            if isinstance(choice, Choice) and getattr(choice.params, "parallel", False):
                return Known(replace(choice.params, parallel=False), "")
            return choose(workload, core) if choose else None

        return chosen

    def _rows(self, name: str) -> list[tuple[list[Expr], Samples | None]] | str:
        """Return the shape and the row axis of each operand and of the result; or the reason why there are no rows."""
        func = self.mod[name]
        shapes = [dims_of(param.ty) for param in func.params]
        places = [_place(shape) for shape in shapes]
        found = find_row_axes(fixed_composite(self.mod, name, _PROOF_ROWS), places, _PROOF_ROWS)
        if not isinstance(found, Samples):
            return getattr(found, "reason", "its result has no rows")
        result = dims_of(func.ret_ty)
        for shape, place in zip([*shapes, result], [*places, found], strict=True):
            symbolic = [axis for axis, dim in enumerate(shape) if not isinstance(dim, tirx.IntImm)]
            before = shape[: place.axis] if place else []
            if symbolic != ([place.axis] if place else []) or any(int(dim) != 1 for dim in before):
                return "a row is not stored in one piece"
        return list(zip([*shapes, result], [*places, found], strict=True))


def _loops(func: tirx.PrimFunc, why: str) -> generic.Scheduled:
    return generic.Scheduled(generic.stored_axis_innermost(func), f"{LOOPS}: {why}")


def _place(shape: list[Expr]) -> Samples | None:
    for axis, dim in enumerate(shape):
        if not isinstance(dim, tirx.IntImm):
            return Samples(axis, value_of(dim, 1))
    return None


def _row(shape: list[Expr], place: Samples) -> int:
    return place.inner * math.prod(int(dim) for dim in shape[place.axis + 1 :])


def _cost(chunk: int, estimate: float, most: int) -> float:
    """Return the estimated cycles per row for a chunk size, summed over four lengths from `most` to `most` / 8."""
    lengths = [-(-most // part) for part in (1, 2, 4, 8)]
    return sum(-(-length // chunk) / length * estimate for length in lengths)


def _same_constants(one: Lowered, other: Lowered) -> bool:
    return all(
        a.shape == b.shape and np.array_equal(a, b)
        for a, b in zip(one.constants, other.constants, strict=True)
    )
