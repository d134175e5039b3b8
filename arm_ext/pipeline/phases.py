# SPDX-License-Identifier: Apache-2.0
"""The pipeline: named phases in order, each from IRModule to IRModule.

    import ─► canonicalize ─► layout ─► integerize ─► partition ─► precision ─► fuse ─► lower ─► plan ─► link ─► package

`import` is a front end's, `link` and `package` make files of the result; what lies between stands in PHASES.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax

import relay_passes
from arm_ext.common.output_folder import OutputFolder
from arm_ext.common.timings import section
from arm_ext.errors import ModelError
from arm_ext.frontends.common.loops import mark_loops
from arm_ext.package.manifest import Precision
from arm_ext.pipeline import codegen
from arm_ext.pipeline.call_sites import call_sites
from arm_ext.pipeline.lower import lower
from arm_ext.pipeline.lower_fixed import FixedSizes
from arm_ext.report.calls import CallSite, KernelCall
from arm_ext.target.profiles import Profile
from relay_passes.bounds import OutOfBoundsError
from relay_passes.ir.sources import bindings_of, global_callees
from relay_passes.programs.control_flow import Decision, split
from relay_passes.rules.registry import PRODUCT_RULES
from schedules.composites.vocabulary import VOCABULARY
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import Kernel
from schedules.lowering.rewrite_costs import Costs
from schedules.numerics.qdq import NUMERICS, Qdq, linear_dynamic_routine
from schedules.select import Choose


@dataclass
class Context:
    """Options that phases read, and records that they write.

    Attributes:
        profile: The target.
        precision: What float operators compute in.
        without: Names of kernels that are not to be used.
        numerics: What quantised operators compute.
        choose: What knows better parameters than the kernels' estimates, such as a tuning database.
        more_rules: Rewrites that are applied beside ours, to the canonical form.
        more_kernels: Kernels that are chosen among beside ours, where all sizes are known.
        serial: Whether kernels run on the calling thread alone.
        divide: Moves what an NPU may compute into functions of its own, and notes down in `offers` what is asked
            to compute them.
        kept_layout: Written by `layout`: calls that keep the model's layout, and why.
        left_float: Written by `integerize`: calls of a quantised model that still compute in float, and why.
        kernels: Written by `lower`: one record a kernel.
        calls: Written by `lower`: every call of a kernel, in execution order.
        offers: Written by `partition`: by a function's name what is to compute it, where that can.
    """

    profile: Profile
    precision: Precision = "fp32"
    without: tuple[str, ...] = ()
    numerics: Qdq = NUMERICS
    choose: Choose | None = None
    more_rules: tuple[relay_passes.Rule, ...] = ()
    more_kernels: tuple[Kernel, ...] = ()
    serial: bool = False
    divide: "Callable[[tvm.IRModule, Context], tvm.IRModule] | None" = None
    kept_layout: list[Diagnostic] = field(default_factory=list)
    left_float: list[Diagnostic] = field(default_factory=list)
    kernels: list[KernelCall] = field(default_factory=list)
    calls: list[CallSite] = field(default_factory=list)
    offers: dict[str, relay_passes.Offer] = field(default_factory=dict)

    def of_piece(self) -> "Context":
        """Return a context with empty records, for a part of the model."""
        return replace(self, kept_layout=[], left_float=[], kernels=[], calls=[], offers={})

    def gather(self, parts: "Mapping[str, Context]", names: Mapping[str, Mapping[str, str]]) -> None:
        """Add the records of the parts' contexts.

        Args:
            parts: Name of a part → its context.
            names: Name of a part → name of a function in it → the function's name in the whole (`merge_modules`).
        """
        kernels: dict[str, KernelCall] = {}
        for name, part in parts.items():
            self.kept_layout += part.kept_layout
            self.left_float += part.left_float
            self.offers |= part.offers
            self.calls += (call.moved_to(name, names[name].get(call.symbol, "")) for call in part.calls)
            for kernel in part.kernels:
                # A reshape that became a view has no kernel left.
                symbol = names[name].get(kernel.symbol, f"{name}.{kernel.symbol}")
                shared = kernels[symbol].sources if symbol in kernels else ()
                sources = tuple(dict.fromkeys((*shared, *kernel.sources)))
                kernels[symbol] = kernel.model_copy(update={"symbol": symbol, "sources": sources})
        self.kernels += sorted(kernels.values(), key=lambda kernel: kernel.symbol)

    def note_lowered(self, mod: tvm.IRModule, kernels: Sequence[KernelCall]) -> None:
        """Add the records of a lowered module, whose shapes are all static."""
        self.kernels += kernels
        copies = {kernel.symbol for kernel in kernels if kernel.kernel in ("elementwise", "transpose")}
        self.calls += call_sites(mod, copies)


def canonicalize(mod: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Fold constants and BatchNorm, tidy; QDQ is kept."""
    mod = relay_passes.canonicalize(mod)
    if not context.more_rules:
        return mod
    return relay_passes.canonicalize(relay_passes.apply_rules(mod, context.more_rules))


def layout(mod: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Put channels last; in QDQ form, where scales still stand beside the axes that they follow."""
    mod, kept = relay_passes.to_nhwc(mod)
    context.kept_layout += kept
    return mod


def integerize(mod: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Compute in integers what stands between dequantize and quantize."""
    mod, left = relay_passes.integerize(mod, context.numerics)
    context.left_float += left
    # What is quantised at run time.
    return relay_passes.dynamic_products(mod, linear_dynamic_routine)


def partition(mod: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Move what an NPU may compute into functions, each of which the CPU computes where there is none."""
    return mod if context.divide is None else context.divide(mod, context)


def precision(mod: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Compute products in 16 bits, with their sums in binary32, where that was asked for."""
    if context.precision == "fp32":
        return mod
    return relay_passes.to_half_precision(mod, "float16" if context.precision == "fp16" else "bfloat16")


def fuse(mod: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Form composites: an anchor with the epilogue that a kernel can take in."""
    # Among them: int8 weights of float products stay int8, their scale goes where the epilogue finds it.
    mod = relay_passes.apply_rules(mod, PRODUCT_RULES)
    mod = relay_passes.split_concat(mod)
    costs = Costs(context.profile.core)
    mod = relay_passes.combine_matmuls(mod, VOCABULARY, costs)
    return relay_passes.fuse(mod, VOCABULARY, costs)


def lower_kernels(mod: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Make every call a TensorIR kernel: hand-written where one matches, TVM's fused loops elsewhere."""
    sizes = FixedSizes(mod, context.profile, context.without, context.more_kernels)
    mod, kernels = lower(mod, context.profile, context.without, context.choose, sizes)
    context.note_lowered(mod, kernels)
    return mod


def plan(mod: tvm.IRModule, context: Context) -> tvm.IRModule:
    """Give every activation its place in one arena."""
    passes = [
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
    ]
    with context.profile.tvm_target():
        for upstream in passes:
            mod = relay_passes.run_upstream(mod, upstream)
        if context.serial:
            mod = relay_passes.serial_loops(mod)
        mod = relay_passes.inline_marked(relay_passes.hoist_workspaces(mod), list(context.offers))
        mod = relay_passes.run_upstream(mod, relax.transform.StaticPlanBlockMemory())
    mod = relay_passes.accept_offsets(relay_passes.plan_arena(mod))
    mod = relay_passes.copy_constants(relay_passes.dispatch(mod, context.offers))
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    called = {name for call in calls for name in global_callees(call)}
    context.kernels = [k if k.symbol in called else k.model_copy(update=_VIEW) for k in context.kernels]
    context.calls = [call for call in context.calls if call.symbol in called]
    return mod


# A reshape that the planner turned into another look at the same bytes.
_VIEW = {"kernel": "view", "numerics": "-", "reason": "shares its input's bytes", "rejected": ()}


@dataclass(frozen=True)
class Phase:
    """A named phase."""

    name: str
    run: Callable[[tvm.IRModule, Context], tvm.IRModule]


PHASES: tuple[Phase, ...] = (
    Phase("canonicalize", canonicalize),
    Phase("layout", layout),
    Phase("integerize", integerize),
    Phase("partition", partition),
    Phase("precision", precision),
    Phase("fuse", fuse),
    Phase("lower", lower_kernels),
    Phase("plan", plan),
)


@dataclass(frozen=True)
class Dump:
    """Output of each phase's module as TVMScript, in numbered files; each of several models has a folder."""

    output: OutputFolder
    folder: str = ""

    def write(self, number: int, name: str, mod: tvm.IRModule) -> None:
        """Write a phase's module."""
        script = mod.script(show_meta=False) + "\n"
        self.output.write(str(Path(self.folder, f"{number:02d}-{name}.py")), script.encode())


SCRIPTS = "[0-9][0-9]-*.py"
"""The names of what a `Dump` writes."""


def _decided(decision: Decision) -> KernelCall:
    return KernelCall(
        symbol=decision.function,
        sources=decision.sources,
        kernel="loop" if decision.is_loop else "branch",
        numerics="-",
        reason="how often is decided at run time" if decision.is_loop else "which is decided at run time",
    )


LAST_OF_ALL_TARGETS = "integerize"
"""The last phase that does the same for all targets, where there are no `more_rules`."""


def run_phases(
    mod: tvm.IRModule, context: Context, dump: Dump | None = None, after: str = ""
) -> Iterator[tuple[str, tvm.IRModule]]:
    """Run PHASES over an imported module, yielding each phase's name and result.

    Args:
        mod: As a front end returned it.
        context: The target; the phases write their records to it.
        dump: For numbered TVMScript, `00-import.py` the first.
        after: The phase that left `mod`, if one did.

    Raises:
        ModelError: Indices of the model are out of bounds whatever its inputs are.
    """
    if dump is not None:
        dump.write(0, "import", mod)
    program = split(mod)
    pieces, contexts = program.pieces, dict.fromkeys(program.pieces, context)
    if program.control:
        contexts = {name: context.of_piece() for name in pieces}
    done = [phase.name for phase in PHASES].index(after) + 1 if after else 0
    for number, phase in enumerate(PHASES[done:], start=done + 1):
        try:
            with section(phase.name):
                pieces = {name: phase.run(piece, contexts[name]) for name, piece in pieces.items()}
        except OutOfBoundsError as err:
            raise ModelError(str(err)) from err
        joined = program.join(pieces)
        if program.control and phase is PHASES[-1]:
            context.gather(contexts, joined.names)
            context.kernels += map(_decided, program.decisions())
        if dump is not None:
            dump.write(number, phase.name, joined.mod)
        yield phase.name, joined.mod


def build(
    planned: tvm.IRModule,
    profile: Profile,
    initial: Sequence[npt.NDArray[Any]] = (),
    *,
    optimised: bool = True,
) -> relax.VMExecutable:
    """Generate machine code for a planned module; weights go inside.

    Args:
        planned: As the last phase leaves it.
        profile: The target.
        initial: Of a model with states, those that its first step begins with.
        optimised: Whether LLVM optimises.
    """
    planned = relay_passes.add_step(planned, initial)
    passes = [
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]
    target = profile.tvm_target(optimised=optimised)
    lowered = tvm.transform.Sequential(passes)(mark_loops(planned))
    with target:
        # `main` as machine code: half the runtime's instructions of the bytecode interpreter (17 k of 36 k in DS-CNN).
        return relax.build(
            lowered, target, relax_pipeline=None, tir_pipeline=codegen.registered(), exec_mode="compiled"
        )
