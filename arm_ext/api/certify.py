# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.certify`: runs a model on every instruction-set level and number of threads, and compares the numbers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt

from arm_ext.api.arguments import refuse_compiled
from arm_ext.api.build_options import BuildOptions
from arm_ext.api.compile import compile as compile_model
from arm_ext.api.model_source import PRECISION_FEATURE, Source
from arm_ext.api.mutual_exclusion import serial
from arm_ext.api.options import IMPORT, Options, gathered
from arm_ext.api.plugins import with_plugins
from arm_ext.api.run import OutputCheck, checked, checked_steps, compared, stepped_outputs
from arm_ext.api.sample_shapes import shaped_by
from arm_ext.board import Board, LoadedModel, open_board
from arm_ext.board.foreign import warn_of_foreign
from arm_ext.board.virtual import NoSmeError, emulator, needs_sme, qemu_version
from arm_ext.common.distance import distance
from arm_ext.common.errors import ArmExtError, EnvError, ModelError, UsageError
from arm_ext.common.npz import read_npz
from arm_ext.common.scratch import temporary
from arm_ext.common.version import versions
from arm_ext.frontends.load import prepared
from arm_ext.package import AnyPackage, Package, package_of
from arm_ext.package.manifest import Check
from arm_ext.pipeline import fingerprint
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.phases import PhaseResult, last, run_phases
from arm_ext.pipeline.reveal import revealed
from arm_ext.quantization.samples import split_samples
from arm_ext.report.calls import SourceNodes
from arm_ext.report.certificate import Certificate, CertifiedLevel, CertifiedRun, Outcome
from arm_ext.shapes.given import buckets_of
from arm_ext.target.levels import ALL, Level, chosen

Array = npt.NDArray[Any]

STEPS = ("compile", "run", "find the layer")
"""Steps of `certify`, for a progress display."""

THREADS = (1, 2, 4)

MOST_THREADS = 64

_TAKEN = IMPORT | {"precision", "winograd", "without", "inputs", "state", "state_init", "tuned"}
_NAMES = {"shapes": "shape", "values": "value", "plugins": "plugin", "without": "without-kernel"}
"""Option of the API → its name on the command line, where the two differ."""

_OF_COMPILERS = ("arm-ext", "TVM", "LLVM", "Zig")


@dataclass(frozen=True)
class Computed:
    """What a program computed on one level and number of threads.

    Attributes:
        outputs: Name of an output and of its input → value.
        checks: Comparisons with the self-test.
    """

    outputs: dict[str, Array]
    checks: tuple[OutputCheck, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the outputs."""
        return fingerprint.arrays(self.outputs.values())

    @property
    def fault(self) -> str:
        """What is out of the self-test's bounds; "" if nothing is."""
        wrong = next((check for check in self.checks if not check.passed), None)
        if wrong is None:
            return ""
        return f"{wrong.name} is {wrong.expected.relative:.2g} from the self-test's value"


@serial
@with_plugins
@shaped_by("inputs", "data", "quantize")
def certify(
    model: AnyPackage,
    options: Options | None = None,
    *,
    targets: Sequence[str] = (ALL,),
    threads: Sequence[int] = THREADS,
    data: str | Path | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> Certificate:
    """Run a model on instruction-set levels, each emulated, with several numbers of threads; compare all outputs.

    Inputs are those of the self-test, its steps, and the samples given. Outputs are held against the self-test and
    against those of the first level that passes it; on several threads they must be those of one thread to the bit.

    Args:
        model: A model file, which is compiled for each level; or a package, which runs on the levels that have what it
            needs.
        options: Options in one record.
        targets: Names of levels (`arm_ext.target.levels`) or profiles, or "all".
        threads: Numbers of threads.
        data: .npz with samples, an array an input.
        progress: Called with each of STEPS as it begins.
        more: Options by keyword, of a model file: those by which it is read, `precision`, `winograd`, `without` and
            `tuned`.

    Raises:
        UsageError: No such model, level or samples.
        ModelError: The model cannot be compiled.
        EnvError: The emulator is missing.
    """
    o = gathered("certify", Options, options, more, _TAKEN)
    levels, numbers = chosen(targets), _checked(threads)
    emulator()  # or an error, which is not one of each level
    with temporary() as folder:
        progress("compile")
        programs = _programs(model, o, levels, folder)
        held = [each for each in programs if each.package is not None]
        if not held:
            raise UsageError(f"--targets: no level can run it: {programs[0].level.name}: {programs[0].fault}")
        samples = _samples(held[0].known, data)
        progress("run")
        matrix = Matrix(programs, numbers, samples)
        matrix.run()
        runs = matrix.runs()
        if any(run.outcome == "differs" for run in runs) and not _is_package(model):
            progress("find the layer")
            runs = matrix.with_layers(runs, Layers(model, o, folder))
        return matrix.certificate(runs).signed()


@dataclass(frozen=True)
class Program:
    """What runs on a level: a package, or the reason why there is none."""

    level: Level
    package: Package | None
    fault: str = ""

    @property
    def known(self) -> Package:
        """The package, of a program that has one."""
        assert self.package is not None
        return self.package


def _is_package(model: object) -> bool:
    return not isinstance(model, str | Path) or Path(model).is_dir()


def _checked(threads: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of threads, each once, the least first."""
    if wrong := [number for number in threads if not 1 <= number <= MOST_THREADS]:
        raise UsageError(f"--threads {wrong[0]}: expected numbers from 1 to {MOST_THREADS}, such as 1,2,4")
    if not threads:
        raise UsageError("--threads: expected numbers such as 1,2,4")
    return tuple(sorted({1, *threads}))


def _programs(model: AnyPackage, options: Options, levels: Sequence[Level], folder: Path) -> list[Program]:
    """Return the program of each level: the package given, or one that is compiled."""
    if _is_package(model):
        usual = Options()
        given = {name: getattr(options, name) for name in sorted(_TAKEN - {"trust"})}
        refuse_compiled(
            {
                f"--{_NAMES.get(name, name.replace('_', '-'))}": value and value != getattr(usual, name)
                for name, value in given.items()
            }
        )
        package = package_of(model)
        return [Program(level, package) for level in levels]
    found: dict[tuple[str, str | None], Program] = {}
    for level in levels:
        key = level.target, level.mattr
        if key not in found:
            output = folder / f"{len(found)}.armpkg"
            found[key] = _compiled(model, replace(options, mattr=level.mattr), level, output)
    return [replace(found[level.target, level.mattr], level=level) for level in levels]


def _compiled(model: AnyPackage, options: Options, level: Level, output: Path) -> Program:
    assert isinstance(model, str | Path)
    feature = PRECISION_FEATURE.get(options.precision)
    if feature is not None and feature not in level.profile.features:
        return Program(level, None, f"it lacks {feature}, which --precision {options.precision} needs")
    return Program(level, compile_model(model, level.target, output, options).package)


@dataclass(frozen=True)
class Sample:
    """A sample of --data: the sample's name in messages, and the model's inputs in the model's order."""

    name: str
    values: list[Array]


def _samples(package: Package, data: str | Path | None) -> list[Sample]:
    if data is None:
        return []
    if package.manifest.states or len(package.views()) > 1:
        raise UsageError("--data: samples are for models without states and of one shape; leave it out")
    specs = [tensor.spec() for tensor in package.manifest.inputs]
    feeds = split_samples(read_npz(Path(data), "samples, an array an input"), specs, f"samples in {data}")
    return [
        Sample(f"sample {number}", [feed[spec.name] for spec in specs]) for number, feed in enumerate(feeds)
    ]


@dataclass
class Matrix:
    """The runs of all programs on all numbers of threads, and the comparison of their outputs."""

    programs: Sequence[Program]
    threads: Sequence[int]
    samples: Sequence[Sample]

    def __post_init__(self) -> None:
        """Create the empty tables of outputs and of faults."""
        self.found: dict[tuple[str, int], Computed] = {}
        self.faults: dict[tuple[str, int], tuple[Outcome, str]] = {}

    def run(self) -> None:
        """Run all programs."""
        for program in self.programs:
            for number in self.threads:
                key = program.level.name, number
                if program.package is None:
                    self.faults[key] = "not run", program.fault
                    continue
                try:
                    with _board(program.package, program.level, number) as board:
                        self._on(board, program.package, key)
                except _AbsentError as error:
                    self.faults[key] = "not run", str(error)

    def _on(self, board: Board, package: Package, key: tuple[str, int]) -> None:
        try:
            model = board.load(package.so, package.manifest.so_sha256)
            self.found[key] = _computed(model, package, self.samples)
        except (EnvError, ModelError, UsageError) as error:
            self.faults[key] = "fails", str(error).splitlines()[0]

    @cached_property
    def reference(self) -> tuple[str, Computed] | None:
        """The first level whose outputs on one thread pass the self-test, and these."""
        firsts = [
            (level, found) for (level, number), found in self.found.items() if number == self.threads[0]
        ]
        return next(((level, found) for level, found in firsts if not found.fault), None)

    def runs(self) -> tuple[CertifiedRun, ...]:
        """Return the outcome of each run, by level and number of threads."""
        return tuple(self._run(program, number) for program in self.programs for number in self.threads)

    def _run(self, program: Program, number: int) -> CertifiedRun:
        key = program.level.name, number
        if key in self.faults:
            fault, reason = self.faults[key]
            return CertifiedRun(level=key[0], threads=number, outcome=fault, reason=reason)
        found = self.found[key]
        single = self.found.get((key[0], self.threads[0]), found)
        difference, reason = 0.0, found.fault
        if not reason and found.digest != single.digest:
            reason = f"{_first(found, single)} is not what one thread computes"
        if not reason and self.reference is not None and found.digest != self.reference[1].digest:
            difference, reason = _distance(found, *self.reference, program.known)
        equal = self.reference is not None and found.digest == self.reference[1].digest
        outcome: Outcome = "differs" if reason else "equal" if equal else "close"
        return CertifiedRun(
            level=key[0], threads=number, outcome=outcome, difference=difference, reason=reason
        )

    def with_layers(self, runs: Sequence[CertifiedRun], layers: "Layers") -> tuple[CertifiedRun, ...]:
        """Return the runs; a run that differs names the first layer that differs."""
        levels = {program.level.name: program for program in self.programs}
        right = None if self.reference is None else levels[self.reference[0]]

        def told(run: CertifiedRun) -> CertifiedRun:
            if run.outcome != "differs":
                return run
            program = levels[run.level]
            single = self.found.get((run.level, self.threads[0]))
            alone = run.threads != self.threads[0] and single is not None and not single.fault
            against = program if alone else right
            if against is None:
                return run
            layer = layers.first(program, run.threads, against, exact=alone)
            return run.model_copy(update={"layer": layer})

        return tuple(map(told, runs))

    def certificate(self, runs: tuple[CertifiedRun, ...]) -> Certificate:
        """Return the certificate of the runs, which is not signed."""
        held = next(program.known for program in self.programs if program.package is not None)
        tests = [view.selftest() for view in held.views()]
        inputs = [value for test in tests for value in test.inputs]
        inputs += [value for sample in self.samples for value in sample.values]
        steps = sum(len(test.steps) for test in tests)
        known = versions()
        return Certificate(
            model=held.manifest.model.name,
            versions={name: known[name] for name in _OF_COMPILERS} | _emulators(self.programs, runs),
            samples=len(tests) + steps + len(self.samples),
            inputs_sha256=fingerprint.arrays(inputs),
            outputs_sha256="" if self.reference is None else self.reference[1].digest,
            reference="" if self.reference is None else self.reference[0],
            levels=tuple(map(_level, self.programs)),
            runs=runs,
        )


def _level(program: Program) -> CertifiedLevel:
    level, package = program.level, program.package
    target = None if package is None else package.manifest.target
    return CertifiedLevel(
        name=level.name,
        target=level.target if target is None else target.profile,
        features=level.profile.features if target is None else tuple(target.features),
        cpu=level.cpu,
        so_sha256="" if package is None else package.manifest.so_sha256,
    )


class _AbsentError(ArmExtError):
    """Raised if an emulated level lacks what a program needs, or the emulator lacks the level."""


@contextmanager
def _board(package: Package, level: Level, threads: int) -> Iterator[Board]:
    """Yield the emulated board of a level."""
    try:
        board = open_board(f"virtual:{level.cpu}", threads=threads)
    except (UsageError, NoSmeError) as error:  # the emulator has no such CPU, or there is none that has
        raise _AbsentError(str(error)) from error
    with board:
        lacks = sorted(set(package.manifest.target.features) - board.info.features)
        if lacks:
            raise _AbsentError(f"it lacks {', '.join(lacks)}, which the program may use")
        warn_of_foreign(package.path, package.manifest.so_sha256, board)
        yield board


def _computed(model: LoadedModel, package: Package, samples: Sequence[Sample]) -> Computed:
    """Run a model on the self-test's inputs of each of its shapes, its steps, and the samples."""
    outputs: dict[str, Array] = {}
    checks: list[OutputCheck] = []
    for view in package.views():
        test = view.selftest()
        of = f" of {view.describe_inputs()}" if len(package.views()) > 1 else ""
        own = [(f"{name}{of}", value) for name, value in _named(view, model.run(test.inputs))]
        steps = stepped_outputs(model, view, test)
        outputs |= dict(own)
        outputs |= {
            f"output {place} of step {step}{of}": value
            for step, values in enumerate(steps)
            for place, value in enumerate(values)
        }
        checks += [*checked(view, test, own), *checked_steps(view, test, steps)]
    for sample in samples:
        found = _named(package, model.run(sample.values))
        outputs |= {f"{name} of {sample.name}": value for name, value in found}
    return Computed(outputs, tuple(checks))


def _named(package: Package, outputs: Sequence[Array]) -> list[tuple[str, Array]]:
    names = [tensor.name for tensor in package.manifest.outputs]
    return list(zip(names, outputs, strict=True))


def _first(found: Computed, other: Computed) -> str:
    """Return the name of the first output with other bytes."""
    return next(
        name for name, value in found.outputs.items() if value.tobytes() != other.outputs[name].tobytes()
    )


def _distance(found: Computed, level: str, reference: Computed, package: Package) -> tuple[float, str]:
    """Return the largest difference of an output to the reference's, and which output is out of bounds, if one is."""
    checks = [
        compared(package, name, value, reference.outputs[name]) for name, value in found.outputs.items()
    ]
    wrong = next((check for check in checks if not check.passed), None)
    reason = "" if wrong is None else f"{wrong.name} is {wrong.expected.relative:.2g} from that of {level}"
    return max(check.expected.relative for check in checks), reason


def _emulators(programs: Sequence[Program], runs: Sequence[CertifiedRun]) -> dict[str, str]:
    """Return the versions of the emulators that ran programs."""
    ran = {run.level for run in runs if run.outcome != "not run"}
    sme = {needs_sme(program.level.cpu) for program in programs if program.level.name in ran}
    names = {False: "QEMU", True: "QEMU with SME"}
    return {names[each]: qemu_version(emulator(sme=each)[0]) for each in sorted(sme)}


@dataclass
class Layers:
    """Finds the first layer of a model that differs between two runs.

    Attributes:
        model: The model.
        options: Options by which it is compiled.
        folder: Folder for programs that return the results of all layers.
        built: Level → the keys of the results that the level's program in the folder returns.
    """

    model: AnyPackage
    options: Options
    folder: Path
    built: "dict[str, list[tuple[str, tuple[str, ...], str]]]" = field(default_factory=dict)

    def first(self, program: Program, threads: int, against: Program, *, exact: bool) -> str:
        """Return the first layer of a program that differs; "" if none does, or if no layers can be compared.

        Args:
            program: The program that differs.
            threads: The number of threads on which it does.
            against: The program whose values on one thread are right.
            exact: Whether all bits must be equal.
        """
        if len(buckets_of(self.options.shapes)) > 1 or program.known.manifest.states:
            return ""
        found, right = self._values(program, threads), self._values(against, 1)
        check = program.known.manifest.check
        known: dict[tuple[str, tuple[str, ...], str], list[Array]] = {}
        for key, value in right:
            known.setdefault(key, []).append(value)
        for key, value in found:
            others = known.get(key)
            if not others:
                continue  # other kernels have other steps
            other = others.pop(0)
            gap = distance(value, other)
            if not (
                value.tobytes() == other.tobytes()
                if exact
                else gap.exact or _near(gap.relative, value, check)
            ):
                return key[0]
        return ""

    def _values(
        self, program: Program, threads: int
    ) -> "list[tuple[tuple[str, tuple[str, ...], str], Array]]":
        """Return the results of all kernel calls: (layer, source nodes, type), value."""
        level = program.level
        so = self.folder / f"{level.name}.so"
        if level.name not in self.built:
            self.built[level.name] = self._revealed(level, so)
        keys = self.built[level.name]
        if not keys:
            return []
        with _board(program.known, level, threads) as board:
            values = board.load(so).run(program.known.selftest().inputs)
        return list(zip(keys, values, strict=True))

    def _revealed(self, level: Level, so: Path) -> "list[tuple[str, tuple[str, ...], str]]":
        """Write a program for a level that returns the results of all kernel calls; return their keys."""
        o = replace(self.options, mattr=level.mattr)
        cache = KernelCache()
        given = prepared(self.model, o.values, trust=o.trust, random=o.random)
        phases = BuildOptions.checked(level.target, o).of_phases(kernel_cache=cache)
        (variant, *_), _ = Source(given, o).variants(buckets_of(o.shapes), phases)
        lowered = last(run_phases(PhaseResult(variant.model.mod), phases, until="lower"))
        shown, sites = revealed(lowered)
        planned = last(run_phases(shown, phases, after="lower"))
        make_program(planned.mod, level.profile, kernel_cache=cache).export(so, o.cc, ())
        nodes = SourceNodes(variant.model.nodes, count_macs(variant.model.mod))
        return [(nodes.anchor(site.sources), site.sources, site.output) for site in sites]


def _near(relative: float, value: Array, check: Check) -> bool:
    return value.dtype.kind == "f" and relative <= check.relative_bound
