# SPDX-License-Identifier: Apache-2.0
"""The results of all kernel calls as outputs of a model, to find the first call that computes wrong values."""

from dataclasses import replace

from tvm import relax

import relay_passes
from arm_ext.pipeline.phases import PhaseResult
from arm_ext.report.calls import CallSite
from relay_passes.ir.calls import CALL_TIR, name_of
from relay_passes.ir.sources import bindings_of
from relay_passes.programs.merge_modules import MAIN


def revealed(lowered: PhaseResult) -> tuple[PhaseResult, tuple[CallSite, ...]]:
    """Return a lowered model that returns the results of its kernel calls in place of its outputs, and these calls.

    The kernels are the same; where they write is not. Calls with several results are left out. A model with branches or
    loops is returned as it is, without calls.

    Args:
        lowered: Result of the phase `lower`.
    """
    mod = relay_passes.run_upstream(lowered.mod, relax.transform.ToNonDataflow())
    main = mod[MAIN]
    calls = [binding for binding in bindings_of(main) if name_of(binding.value) == CALL_TIR]
    sites = [site for site in lowered.calls if not site.function]
    if len(sites) != len(calls):
        return lowered, ()
    shown = [
        (call.var, site)
        for call, site in zip(calls, sites, strict=True)
        if isinstance(call.var.ty, relax.TensorType)
    ]
    values = [var for var, _ in shown]
    body = relax.SeqExpr(main.body.blocks, relax.Tuple(values))
    types = relax.TupleType([var.ty for var in values])
    mod = mod.clone()
    mod.update_func(
        mod.get_global_var(MAIN), relax.Function(main.params, body, types, main.is_pure, main.attrs)
    )
    return replace(lowered, mod=mod), tuple(site for _, site in shown)
