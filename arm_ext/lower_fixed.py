# SPDX-License-Identifier: Apache-2.0
"""Lowering of functions whose sizes are all known; `lower_any_length` is for those with one that is not."""

from collections.abc import Collection

import tvm
from tvm import relax, tirx

from arm_ext.target.profiles import Profile
from arm_ext.tune.retraced import retraced
from schedules import generic
from schedules.generic.families import GENERIC
from schedules.lowering.lower import Lowered, lower
from schedules.select import Choose, Rejected


class FixedSizes:
    """Lowers the functions of one module."""

    def __init__(self, mod: tvm.IRModule, profile: Profile, without: Collection[str] = ()) -> None:
        """Take what `Lengths` takes."""
        self._mod, self._profile, self._without = mod, profile, without
        self._routines = {gv.name_hint: f for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}

    def lower(self, name: str, choose: Choose | None) -> Lowered | Rejected:
        """Lower a composite."""
        profile = self._profile
        return lower(
            self._mod[name], profile.tvm_target(), profile.core, choose, self._routines, self._without
        )

    def schedule(self, func: tirx.PrimFunc, choose: Choose | None) -> tuple[generic.Scheduled, str]:
        """Schedule loops that no kernel takes; the record that decided it comes beside, if any."""
        scheduled = generic.schedule(func, self._profile.tvm_target())
        if choose is not None and scheduled.kernel == GENERIC:
            return retraced(func, scheduled, self._profile, choose)
        return scheduled, ""

    def as_called(self, name: str) -> relax.Function:
        """Return a composite as inlining wants it."""
        return self._mod[name]

    def inlined(self, caller: relax.Function) -> relax.Function:
        """Return a function into which composites were inlined."""
        return caller
