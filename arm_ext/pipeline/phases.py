# SPDX-License-Identifier: Apache-2.0
"""The pipeline: named phases in order, each from IRModule to IRModule.

    import ─► canonicalize ─► layout ─► integerize ─► partition ─► precision ─► fuse ─► lower ─► plan ─► link ─► package

`import` is done by a front end, and `link` and `package` write the files; PHASES lists the phases in between.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax

import relay_passes
from arm_ext.common.errors import ModelError
from arm_ext.common.output_folder import OutputFolder
from arm_ext.common.timings import section
from arm_ext.frontends.common.loops import mark_loops
from arm_ext.frontends.common.open_sizes import refuse_open_sizes
from arm_ext.package.manifest import Precision
from arm_ext.pipeline import codegen
from arm_ext.pipeline.call_sites import call_sites
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.pipeline.large_constants import LargeConstants
from arm_ext.pipeline.lower import lower
from arm_ext.pipeline.lower_bounded_length import Lengths
from arm_ext.pipeline.lower_fixed import FixedSizes
from arm_ext.report.call_rows import call_rows
from arm_ext.report.calls import CallRow, CallSite, KernelCall, SourceNodes
from arm_ext.target.profiles import Profile
from relay_passes.bounds import OutOfBoundsError
from relay_passes.ir.sources import bindings_of, global_callees
from relay_passes.lengths.bounded_main import at_length, copy_ends
from relay_passes.lengths.fix_length import simplified
from relay_passes.memory.new_tensors import allocate_directly
from relay_passes.memory.plan_arena import UPPER_BOUND
from relay_passes.memory.pointer_calls import call_by_pointers
from relay_passes.memory.write_in_place import write_in_place
from relay_passes.programs.control_flow import Decision, SplitModule, split
from relay_passes.programs.merge_modules import MAIN
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rules.registry import GATHER_RULES, PRODUCT_RULES
from schedules.composites.vocabulary import VOCABULARY
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.generic.schedule import FIRST
from schedules.kernels.common.contract import Kernel
from schedules.lowering.rewrite_costs import RewriteCosts
from schedules.numerics.blocks import BlockWeights, linear_float_routine
from schedules.numerics.qdq import (
    NUMERICS,
    Qdq,
    conv_dynamic_routine,
    linear_dynamic_routine,
    matmul_dynamic_routine,
)
from schedules.numerics.routine import Routine
from schedules.select import Choose, select
from schedules.tir.emit import IN_PLACE

Array = npt.NDArray[Any]

DYNAMIC_ROUTINES = linear_dynamic_routine, conv_dynamic_routine, matmul_dynamic_routine
"""What `dynamic_products` makes products by."""


def linear_grouped_routine(
    shape: Sequence[int], integers: Array, scales: Array, zeros: Array, group: int
) -> Routine:
    """Return what `grouped_products` makes products by."""
    return linear_float_routine(shape, BlockWeights.fitted(integers, scales, zeros, group))


@dataclass(frozen=True)
class BoundedLength:
    """A size with an upper bound that is known only at run time.

    Attributes:
        name: Name of the size in --shape, such as "n".
        largest: The greatest value that the package takes.
    """

    name: str
    largest: int


@dataclass(frozen=True)
class PhaseOptions:
    """Options of the phases.

    Attributes:
        profile: The target.
        precision: Dtype in which float operators compute.
        without: Names of kernels that are not to be used.
        numerics: Numerics of quantised operators.
        choose: Source of better parameters than those by the kernels' estimates, such as a tuning database.
        more_rules: Rewrites that are applied beside ours, to the canonical form.
        more_kernels: Kernels that are chosen among beside ours, where all sizes are known.
        serial: Whether kernels run on the calling thread alone.
        divide: Moves what an NPU may compute into functions of its own, and adds `offers` and `division`.
        length: The size that is known at run time alone, for a model that `merge_lengths` made.
        record: Records the rules and passes that run, if given.
        kernel_cache: Choices of kernels, and stubs, which it completes before machine code is made, if given.
    """

    profile: Profile
    precision: Precision = "fp32"
    without: tuple[str, ...] = ()
    numerics: Qdq = NUMERICS
    choose: Choose | None = None
    more_rules: tuple[relay_passes.Rule, ...] = ()
    more_kernels: tuple[Kernel, ...] = ()
    serial: bool = False
    divide: "Callable[[PhaseResult, PhaseOptions], PhaseResult] | None" = None
    length: BoundedLength | None = None
    record: RewriteRecord | None = None
    kernel_cache: KernelCache | None = None


@dataclass(frozen=True)
class PhaseResult:
    """A module, with the records of the phases that produced it.

    Attributes:
        mod: The module after the phases.
        removed: From `canonicalize`: channels that are no longer computed.
        kept_channels: From `canonicalize`: constant channels that stay, with the reason.
        kept_layout: From `layout`: calls that keep the model's layout, with the reason.
        left_float: From `integerize`: calls of a quantised model that still compute in float, with the reason.
        unpacked: From `fuse`: calls whose integer weights became float, with the reason.
        offers: From `partition`: function name → call that may compute it instead, such as a run on an NPU.
        division: From `partition`: further results of `divide`, such as its report.
        kernels: From `lower`: one record per kernel.
        calls: From `lower`: every call of a kernel, in execution order, those too that `plan` makes views.
    """

    mod: tvm.IRModule
    removed: tuple[relay_passes.RemovedChannels, ...] = ()
    kept_channels: tuple[Diagnostic, ...] = ()
    kept_layout: tuple[Diagnostic, ...] = ()
    left_float: tuple[Diagnostic, ...] = ()
    unpacked: tuple[Diagnostic, ...] = ()
    offers: Mapping[str, relay_passes.Offer] = field(default_factory=dict)
    division: object = None
    kernels: tuple[KernelCall, ...] = ()
    calls: tuple[CallSite, ...] = ()

    def rows(self, nodes: SourceNodes, core: Core) -> tuple[CallRow, ...]:
        """Return the calls of kernels, with their estimates and source nodes, by `call_rows`."""
        return call_rows(self.calls, {kernel.symbol: kernel for kernel in self.kernels}, nodes, core)


def gather(
    mod: tvm.IRModule, parts: Mapping[str, PhaseResult], names: Mapping[str, Mapping[str, str]]
) -> PhaseResult:
    """Return the results of a module's parts as one result of the complete module.

    Args:
        mod: The whole module.
        parts: Name of a part → its result.
        names: Name of a part → name of a function in it → the function's name in the whole (`merge_modules`).
    """
    kernels: dict[str, KernelCall] = {}
    calls: list[CallSite] = []
    offers: dict[str, relay_passes.Offer] = {}
    for name, part in parts.items():
        offers |= part.offers
        calls += (call.moved_to(name, names[name].get(call.symbol, "")) for call in part.calls)
        for kernel in part.kernels:
            # A reshape that became a view no longer has a kernel.
            symbol = names[name].get(kernel.symbol, f"{name}.{kernel.symbol}")
            shared = kernels[symbol].sources if symbol in kernels else ()
            sources = tuple(dict.fromkeys((*shared, *kernel.sources)))
            kernels[symbol] = kernel.model_copy(update={"symbol": symbol, "sources": sources})
    return PhaseResult(
        mod,
        tuple(each for part in parts.values() for each in part.removed),
        tuple(each for part in parts.values() for each in part.kept_channels),
        tuple(each for part in parts.values() for each in part.kept_layout),
        tuple(each for part in parts.values() for each in part.left_float),
        tuple(each for part in parts.values() for each in part.unpacked),
        offers,
        kernels=tuple(sorted(kernels.values(), key=lambda kernel: kernel.symbol)),
        calls=tuple(calls),
    )


def canonicalize(result: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Fold constants and BatchNorm, clean up, and remove dead channels; the model stays in QDQ form."""
    mod = relay_passes.canonicalize(result.mod, record=options.record)
    if options.more_rules:
        mod = relay_passes.apply_rules(mod, options.more_rules, record=options.record)
        mod = relay_passes.canonicalize(mod, record=options.record)
    mod, removed, kept = relay_passes.remove_channels(mod, options.numerics)
    if removed:
        mod = relay_passes.canonicalize(mod, record=options.record)
    return replace(result, mod=mod, removed=removed, kept_channels=kept)


def layout(result: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Convert to channels-last, still in QDQ form, in which scales belong to axes of their tensors."""
    mod, kept = relay_passes.to_nhwc(result.mod)
    return replace(result, mod=mod, kept_layout=tuple(kept))


def integerize(result: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Compute operators between dequantize and quantize in integers."""
    mod, left = relay_passes.integerize(result.mod, options.numerics)
    # Products of data that is quantised at run time.
    mod = relay_passes.dynamic_products(mod, *DYNAMIC_ROUTINES, options.record)
    grouped = relay_passes.grouped_products(mod, linear_grouped_routine, options.record)
    mod = mod if grouped.same_as(mod) else relay_passes.fold_constants(grouped)
    return replace(result, mod=mod, left_float=tuple(left))


def partition(result: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Move regions that an NPU may compute into functions; the CPU computes them if there is no NPU."""
    return result if options.divide is None else options.divide(result, options)


def precision(result: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Compute products in 16 bits, with sums in binary32, if an option asks for that."""
    if options.precision == "fp32":
        return result
    # Run these rules before products are in 16 bits, while their binary32 sums still have the dtype of the table.
    mod = relay_passes.apply_rules(result.mod, GATHER_RULES, record=options.record)
    mod = relay_passes.to_half_precision(mod, "float16" if options.precision == "fp16" else "bfloat16")
    return replace(result, mod=mod)


def fuse(result: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Form composites: an anchor with the epilogue that a kernel can take in."""
    # One of these rules leaves int8 weights of float products in int8 and moves their scale to the epilogue.
    mod = relay_passes.apply_rules(result.mod, PRODUCT_RULES, record=options.record)
    mod = relay_passes.dynamic_products(mod, *DYNAMIC_ROUTINES, options.record, sums=True)
    mod, unpacked = relay_passes.unpack_weights(mod)
    mod = relay_passes.split_concat(mod)
    cached = options.kernel_cache
    costs = RewriteCosts(options.profile.core, select if cached is None else cached.select)
    mod = relay_passes.combine_matmuls(mod, VOCABULARY, costs, options.record)
    mod = relay_passes.fuse(mod, VOCABULARY, costs, options.record)
    return replace(result, mod=mod, unpacked=unpacked)


def lower_kernels(result: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Make every call a TensorIR kernel: hand-written where one matches, TVM's fused loops elsewhere.

    Raises:
        ModelError: A size depends on the data.
    """
    profile, without, length = options.profile, options.without, options.length
    if length is None:
        sizes = FixedSizes(result.mod, profile, without, options.more_kernels, options.kernel_cache)
        mod, kernels = lower(result.mod, profile, without, options.choose, sizes)
        static = mod
    else:
        lengths = Lengths(result.mod, length.largest, profile, without)
        mod, kernels = lower(result.mod, profile, without, options.choose, lengths)
        mod = simplified(mod)
        static = at_length(mod, length.largest)
        mod = copy_ends(mod) if lengths.chunked else mod
    refuse_open_sizes(static)
    copies = {kernel.symbol for kernel in kernels if kernel.kernel in ("elementwise", "transpose")}
    return replace(result, mod=mod, kernels=tuple(kernels), calls=tuple(call_sites(static, copies)))


def plan(result: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Assign every activation an offset in one arena."""
    passes = [
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
    ]
    if options.length is None:
        mod = relay_passes.view_slices(result.mod, FIRST)
    else:
        mod = _bounded(result.mod, options.length)
    with options.profile.tvm_target():
        for upstream in passes:
            mod = relay_passes.run_upstream(mod, upstream)
        mod = write_in_place(mod, IN_PLACE)
        if options.serial:
            mod = relay_passes.serial_loops(mod)
        mod = relay_passes.inline_marked(relay_passes.hoist_workspaces(mod), list(result.offers))
        mod = relay_passes.run_upstream(mod, relax.transform.StaticPlanBlockMemory())
    mod = relay_passes.accept_offsets(relay_passes.plan_arena(mod))
    mod = relay_passes.copy_constants(relay_passes.dispatch(mod, result.offers))
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    called = {name for call in calls for name in global_callees(call)}
    kernels = (k if k.symbol in called else k.model_copy(update=_VIEW) for k in result.kernels)
    return replace(result, mod=mod, kernels=tuple(kernels))


def _bounded(mod: tvm.IRModule, length: BoundedLength) -> tvm.IRModule:
    """Return a copy of the module with the maximum of the bounded size."""
    mod = mod.clone()
    mod.update_func(
        mod.get_global_var("main"), mod["main"].with_attr(UPPER_BOUND, {length.name: length.largest})
    )
    return mod


# A reshape or slice that memory planning turned into a view of its input.
_VIEW = {"kernel": "view", "numerics": "-", "reason": "shares its input's bytes", "rejected": ()}


@dataclass(frozen=True)
class Phase:
    """A named phase."""

    name: str
    run: Callable[[PhaseResult, PhaseOptions], PhaseResult]


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
class PhaseDump:
    """Writes the module after each phase as TVMScript, in numbered files; with several models, each has a folder."""

    output: OutputFolder
    folder: str = ""

    def write(self, name: str, mod: tvm.IRModule) -> None:
        """Write the module after a phase, or after `import`."""
        script = mod.script(show_meta=False) + "\n"
        self.output.write(str(Path(self.folder, f"{_after(name):02d}-{name}.py")), script.encode())


def up_to(name: str) -> tuple[Phase, ...]:
    """Return the phases up to and including the named one."""
    return PHASES[: _after(name)]


def _after(name: str) -> int:
    """Return the number of phases up to and including the named one; 0 for `import`."""
    return [IMPORT, *(phase.name for phase in PHASES)].index(name)


SCRIPTS = "[0-9][0-9]-*.py"
"""Pattern of the names of the files that a `PhaseDump` writes."""


def _decided(decision: Decision) -> KernelCall:
    return KernelCall(
        symbol=decision.function,
        sources=decision.sources,
        kernel="loop" if decision.is_loop else "branch",
        numerics="-",
        reason="how often is decided at run time" if decision.is_loop else "which is decided at run time",
    )


IMPORT = "import"
"""Name for the state before the first phase."""

LAST_OF_ALL_TARGETS = "integerize"
"""The last phase that does the same for all targets, where there are no `more_rules`."""


def run_phases(
    start: PhaseResult,
    options: PhaseOptions,
    dump: PhaseDump | None = None,
    *,
    after: str = IMPORT,
    until: str = "",
) -> Iterator[tuple[str, PhaseResult]]:
    """Run PHASES, or some of them, yielding each phase's name and result.

    Nothing else runs phases.

    Args:
        start: Result of the phase `after`, such as a module that a front end returned.
        options: Options of the phases.
        dump: Folder for numbered TVMScript files, the first of which is `00-import.py`.
        after: The phase that left `start`.
        until: The last phase to run; empty for all.

    Raises:
        ModelError: Indices of the model are out of bounds whatever its inputs are.
    """
    if dump is not None and after == IMPORT:
        dump.write(IMPORT, start.mod)
    # Functions that are offered to an NPU belong to the function that calls them.
    program = SplitModule({MAIN: start.mod}, {}) if start.offers else split(start.mod)
    parts = {name: replace(start, mod=piece) for name, piece in program.pieces.items()}
    for phase in PHASES[_after(after) : _after(until) if until else None]:
        try:
            with section(phase.name):
                parts = {name: phase.run(part, options) for name, part in parts.items()}
        except OutOfBoundsError as err:
            raise ModelError(str(err)) from err
        result = _joined(program, parts)
        if dump is not None:
            dump.write(phase.name, result.mod)
        yield phase.name, result


def announced(
    results: Iterator[tuple[str, PhaseResult]], progress: Callable[[str], None]
) -> Iterator[tuple[str, PhaseResult]]:
    """Yield the results of a run of all phases; call `progress` before each phase."""
    for phase in PHASES:
        progress(phase.name)
        yield next(results)


def last(results: Iterator[tuple[str, PhaseResult]]) -> PhaseResult:
    """Return the result of the last phase that `run_phases` yields."""
    *_, (_, result) = results
    return result


def _joined(program: SplitModule, parts: Mapping[str, PhaseResult]) -> PhaseResult:
    """Combine the results of a phase for the functions of a model into one."""
    if not program.control:
        return parts[MAIN]
    joined = program.join({name: part.mod for name, part in parts.items()})
    result = gather(joined.mod, parts, joined.names)
    return replace(result, kernels=(*result.kernels, *map(_decided, program.decisions())))


def build(
    planned: tvm.IRModule,
    profile: Profile,
    initial: Sequence[npt.NDArray[Any]] = (),
    *,
    optimised: bool = True,
    own_allocator: bool = False,
    constants: LargeConstants | None = None,
) -> relax.VMExecutable:
    """Generate machine code for a planned module, with its weights inside.

    Args:
        planned: Result of the last phase, with the attributes of `codegen`.
        profile: The target.
        initial: Initial values of a model's states.
        optimised: Whether LLVM optimises the code.
        own_allocator: Whether the code is linked with what makes small tensors, instead of the runtime
            (`allocate_directly`).
        constants: Takes the large constants, in whose places the executable has placeholders.
    """
    by_pointers = [
        gvar.name_hint for gvar, func in planned.functions_items() if codegen.POINTERS in func.attrs
    ]
    planned = relay_passes.add_step(planned, initial)
    planned = call_by_pointers(planned, by_pointers, (MAIN, relay_passes.STEP), codegen.SHORT)
    planned = allocate_directly(planned) if own_allocator else planned
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
    lowered = lowered if constants is None else constants.replaced(lowered)
    with target:
        # `main` as machine code takes half the runtime's instructions of the bytecode interpreter (17 k of 36 k in
        # DS-CNN).
        return relax.build(
            lowered, target, relax_pipeline=None, tir_pipeline=codegen.registered(), exec_mode="compiled"
        )
