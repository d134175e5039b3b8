# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.compare`: runs a package and other runtimes on the same model, on one emulated board."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx

from arm_ext.api.arguments import refuse_compiled
from arm_ext.api.bench import bench, running_on
from arm_ext.api.compile import compile as compile_model
from arm_ext.api.options import Options, gathered
from arm_ext.api.plugins import with_plugins
from arm_ext.board.spec import parse_spec
from arm_ext.board.virtual import emulated_cpu
from arm_ext.common.distance import distance
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.version import __version__
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.load import import_model, with_values
from arm_ext.frontends.onnx.export import to_onnx
from arm_ext.measure.cycles import block_costs, line_cycles
from arm_ext.measure.mca import Mca, find_mca
from arm_ext.measure.peers import empty
from arm_ext.measure.peers.catalog import PEERS, Peer, parse_peers
from arm_ext.measure.peers.comparison import NOTE, Absent, Comparison, InferenceCounts, Row, row
from arm_ext.measure.peers.count import Guest, PeerRun, fetch
from arm_ext.measure.peers.files import model_format, weight_bytes
from arm_ext.measure.profile import CountReport
from arm_ext.measure.threads import ThreadReport
from arm_ext.native.build import runtime_libs
from arm_ext.package import AnyPackage, Package, Selftest, load_package, package_of
from arm_ext.shapes.given import static_shapes
from arm_ext.target.profiles import PROFILES, resolve
from schedules.cores import CORES, Core

OURS = "tvm-arm-ext"
_DEFAULT_TARGET = "arm"


def steps(against: str) -> tuple[str, ...]:
    """Return the names of the steps of `compare`, in order, for a progress bar.

    Raises:
        UsageError: As for `compare`.
    """
    return "download", "compile", OURS, *(peer.name for peer in parse_peers(against))


_PROGRAMS = ("PyTorch", "StableHLO", "tflite")

_NARROW = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)

_EXPORTED = "onnxruntime runs the model as this package writes it as ONNX."

_TAKEN = frozenset({"shapes", "values", "mattr", "plugins"})


@with_plugins
def compare(
    model: AnyPackage,
    against: str,
    board: str = "virtual",
    options: Options | None = None,
    *,
    target: str | None = None,
    models: Mapping[str, Path] | None = None,
    threads: int = 1,
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> Comparison:
    """Count one inference of a model, compiled by this package and in other runtimes.

    Args:
        model: A model file, which is compiled (models that are not ONNX are written as such for onnxruntime),
            or a package: its folder, opened, or as `compile` returned it.
        against: Names of `PEERS`, separated by commas.
        board: "virtual" or "virtual:CPU", with a CPU of QEMU or the name of a profile.
        options: Options in one record.
        target: Profile to compile a file for; by default the board's, where its CPU names one.
        models: Peer → a file of its own, for a peer that does not take `model`.
        threads: With several, each runtime is counted on as many, too.
        progress: Called with each of `steps` as it begins.
        more: Options by keyword, for a model file: `shapes`, `mattr`, `plugins`, without which other runtimes compute,
            and `values`, with which they run it, too.

    Raises:
        UsageError: A name, a board or a file is wrong.
        ModelError: The model cannot be compiled.
        EnvError: A tool is missing, or a peer is not in the cache folder and cannot be downloaded.
    """
    peers = parse_peers(against)
    source = Path(model) if isinstance(model, str | Path) else package_of(model).path
    o = gathered("bench --against", Options, options, more, _TAKEN)
    fixed = static_shapes(o.shapes, "bench --against")
    if source.is_dir():
        of_files = {"--mattr": o.mattr, "--plugin": o.plugins, "--value": o.values, "--shape": fixed}
        refuse_compiled({"--target": target, **of_files})
        load_package(source)  # faults of the model are reported before anything is downloaded
    if o.values:
        with _file_with_values(source, o.values) as file:
            rest = replace(o, values=None)
            return compare(
                file, against, board, rest, target=target, models=models, threads=threads, progress=progress
            )
    profile = _profile(source, board, target, o.mattr)
    mca = find_mca()
    with ExitStack() as stack:
        waiting = [peer for peer in peers if peer.name not in (models or {})]
        exported = stack.enter_context(_exported(source, fixed, waiting))
        given = _given(peers, source, models or {}, exported)
        own, refused = _own_inputs(
            {name: file for name, file in given.items() if file not in (source, exported)}
        )
        reasons = {peer.name: _without_model(peer) for peer in peers if peer.name not in given} | refused
        progress("download")
        guests = {name: fetch(peer) for peer in peers if (name := peer.name) not in reasons}
        progress("compile")
        package = stack.enter_context(_package(source, profile, o.mattr, fixed, o.plugins))
        info = package.manifest.target
        cpu = emulated_cpu(parse_spec(board).cpu, info.profile, info.qemu_cpu)
        progress(OURS)
        ours = _ours(running_on(package, f"virtual:{cpu}"), cpu, threads)
        rows, absent = [_our_row(ours)], []
        for peer in peers:
            progress(peer.name)
            if peer.name in reasons:
                absent.append(Absent(runtime=peer.name, reason=reasons[peer.name]))
                continue
            guest, file, inputs = guests[peer.name], given[peer.name], own.get(peer.name)
            try:
                rows.append(_row(guest, file, inputs, ours, mca))
            except ModelError as refusal:
                absent.append(Absent(runtime=peer.name, reason=str(refusal)))
        return Comparison(
            model=package.manifest.model.name,
            target=package.manifest.target.profile,
            features=package.manifest.target.features,
            cpu=cpu,
            core=ours.core.name,
            cycle_model=ours.report.model,
            threads=threads,
            macs=ours.report.macs,
            rows=rows,
            absent=absent,
            note=f"{NOTE} {_EXPORTED}" if exported else NOTE,
        )


@contextmanager
def _exported(source: Path, shapes: Shapes, peers: Sequence[Peer]) -> Iterator[Path | None]:
    """Yield a model that is not ONNX as a temporary ONNX file; None for others, and if no peer takes ONNX.

    A TFLite model with integer weights yields None, too: what LiteRT's kernels compute of them is many operators in
    ONNX, which would say nothing of onnxruntime.
    """
    if (
        not source.is_file()
        or model_format(source) not in _PROGRAMS
        or all(peer.format != "onnx" for peer in peers)
    ):
        yield None
        return
    of_tflite, imported = model_format(source) == "tflite", import_model(source, shapes)
    try:
        proto = to_onnx(imported)
    except ModelError as error:
        if of_tflite:  # LiteRT may be compared with all the same
            yield None
            return
        raise ModelError(f"{error}; name the same network by --onnxruntime-model FILE.onnx") from None
    if of_tflite and any(tensor.data_type in _NARROW for tensor in proto.graph.initializer):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="arm-ext-bench-") as scratch:
        file = Path(scratch) / f"{source.stem}.onnx"
        onnx.save(proto, file)
        yield file


def _given(
    peers: Sequence[Peer], source: Path, models: Mapping[str, Path], exported: Path | None
) -> dict[str, Path]:
    """Return the file that each peer runs: peer → file."""
    names = {peer.name for peer in peers}
    for name, file in models.items():
        if name not in names:
            raise UsageError(f"{file} is a model for {name}, but --against does not name {name}")
    if not source.exists():
        raise UsageError(f"{source}: no such model file or package")
    files = {}
    for peer in peers:
        own = models.get(peer.name)
        if own is not None and model_format(own) != peer.format:
            raise UsageError(
                f"{own}: {peer.name} needs a file in the format {peer.format}, but this one is in the format "
                f"{model_format(own)}"
            )
        if own is not None or (source.is_file() and model_format(source) == peer.format):
            files[peer.name] = own or source
        elif exported is not None and peer.format == "onnx":
            files[peer.name] = exported
    if (
        not files
        and source.is_file()
        and model_format(source) not in {known.format for known in PEERS.values()}
    ):
        takes = " and ".join(f"{peer.name} takes {peer.format} files" for peer in peers)
        options = " or ".join(f"--{peer.name}-model FILE.{peer.format}" for peer in peers)
        raise UsageError(
            f"{source}: {takes}, and this is {model_format(source)}: convert the same network, and name the result by "
            f"{options}"
        )
    return files


def _own_inputs(files: Mapping[str, Path]) -> tuple[dict[str, list[npt.NDArray[Any]]], dict[str, str]]:
    """Return inputs for each peer's own file, whose layout and dtype may differ.

    And the reason for each file without any.

    Called before anything is downloaded or counted, so that a damaged file costs no time.

    Raises:
        UsageError: A file is damaged.
    """
    inputs, refused = {}, {}
    for name, file in files.items():
        try:
            inputs[name] = random_inputs(import_model(file).inputs)
        except ModelError as refusal:
            refused[name] = str(refusal)
    return inputs, refused


def _without_model(peer: Peer) -> str:
    return f"not available: needs a .{peer.format} of the same network (--{peer.name}-model FILE)"


def _profile(source: Path, board: str, target: str | None, mattr: str | None) -> str:
    """Return the profile to compile a file for; "" if the source is a package."""
    spec = parse_spec(board)
    if spec.kind != "virtual":
        raise UsageError(
            f"--against counts instructions, which needs an emulated board; --board {board} is not emulated: use "
            "virtual:CPU"
        )
    if source.is_dir():
        return ""
    if spec.cpu and spec.cpu not in PROFILES and not target:
        raise UsageError(
            f"no profile is for the CPU of --board {board}; name the profile to compile for by --target"
        )
    profile = resolve(target or spec.cpu or _DEFAULT_TARGET, mattr)
    if profile.qemu_cpu is None:
        raise UsageError("target host is not emulated; name another that `arm-ext targets` lists")
    return profile.name


@contextmanager
def _file_with_values(source: Path, values: Mapping[str, npt.ArrayLike]) -> Iterator[Path]:
    """Yield a temporary file of the same name in which some inputs are replaced by constants."""
    with tempfile.TemporaryDirectory(prefix="arm-ext-bench-") as scratch:
        file = Path(scratch) / source.name
        onnx.save(with_values(source, values), file)
        yield file


@contextmanager
def _file_with_ranks(model: Path, expected: Sequence[npt.NDArray[Any]]) -> Iterator[Path]:
    """Yield the file; if an ONNX model declares wrong ranks of outputs, a copy that declares none.

    onnxruntime refuses such a model in the second run on bound outputs.
    """
    if model_format(model) != "onnx" or not expected:
        yield model
        return
    loaded = onnx.load(model, load_external_data=False)
    wrong = [
        declared.type.tensor_type
        for declared, value in zip(loaded.graph.output, expected, strict=True)
        if declared.type.tensor_type.HasField("shape")
        and len(declared.type.tensor_type.shape.dim) != value.ndim
    ]
    if not wrong:
        yield model
        return
    for tensor in wrong:
        tensor.ClearField("shape")
    with tempfile.TemporaryDirectory(prefix="arm-ext-bench-") as scratch:
        file = Path(scratch) / model.name
        onnx.load_external_data_for_model(loaded, str(model.parent))
        onnx.save(loaded, file)
        yield file


@contextmanager
def _package(
    source: Path, profile: str, mattr: str | None, shapes: Shapes, plugins: Sequence[str | Path]
) -> Iterator[Package]:
    if source.is_dir():
        yield load_package(source)
        return
    with tempfile.TemporaryDirectory(prefix="arm-ext-bench-") as scratch:
        folder = Path(scratch) / f"{source.stem}.armpkg"
        yield compile_model(source, profile, folder, mattr=mattr, shapes=shapes, plugins=plugins).package


@dataclass(frozen=True)
class _Ours:
    """Counts of this project's package, and the emulated machine on which all runtimes are counted.

    Attributes:
        package: The package, with one set of shapes.
        report: Counts of the package on one thread.
        cpu: QEMU's -cpu.
        threads: Threads of the machine.
        elapsed: Instructions of the package from begin to end on the machine's threads; None on a single thread.
    """

    package: Package
    report: CountReport
    cpu: str
    threads: int
    elapsed: int | None

    @property
    def core(self) -> Core:
        return CORES[self.package.manifest.target.core]

    @property
    def counts(self) -> InferenceCounts:
        libraries: Counter[str] = Counter()
        for symbol in self.report.symbols:
            libraries[symbol.image] += symbol.instructions
        return InferenceCounts(
            libraries=dict(libraries.most_common()),
            estimated_cycles=self.report.estimated_cycles,
            cycles_with_caches=self.report.cycles_with_caches,
        )


def _ours(package: Package, cpu: str, threads: int) -> _Ours:
    report = bench(package, f"virtual:{cpu}")
    assert isinstance(report, CountReport)
    elapsed = None
    if threads > 1:
        several = bench(package, f"virtual:{cpu}", threads=threads)
        assert isinstance(several, ThreadReport)
        elapsed = several.elapsed_instructions
    return _Ours(package, report, cpu, threads, elapsed)


def _our_row(ours: _Ours) -> Row:
    weights = ours.package.manifest.memory.weight_bytes
    runtime = sum(library.stat().st_size for library in runtime_libs().glob("*.so"))
    return row(
        OURS,
        __version__,
        ours.counts,
        ours=ours.counts,
        macs=ours.report.macs,
        binary_bytes=runtime + max(ours.package.so.stat().st_size - weights, 0),
        weight_bytes=weights,
    ).scaled(ours.elapsed, ours.elapsed)


def _row(
    guest: Guest,
    model: Path,
    own: list[npt.NDArray[Any]] | None,
    ours: _Ours,
    mca: Mca,
) -> Row:
    package, core = ours.package, ours.core
    selftest = package.selftest()
    # In a model with states, warm-up runs advance the states that a runtime keeps itself.
    is_comparable = own is None and not package.manifest.states
    inputs = _inputs_of(model, package, selftest) if own is None else own
    count = partial(guest.count, cpu=ours.cpu, core=core.name)
    with _file_with_ranks(model, selftest.expected if own is None else []) as file:
        run = count(file, inputs, caches=(core.l1d.size, core.l2.size))
        several = count(file, inputs, threads=ours.threads) if ours.threads > 1 else None
    with tempfile.TemporaryDirectory() as scratch:
        nothing = count(empty.write_empty(guest.peer.format, Path(scratch)), empty.INPUTS)
    return row(
        guest.peer.name,
        guest.peer.version,
        _counts(run, core, mca),
        ours=ours.counts,
        macs=ours.report.macs,
        binary_bytes=run.library_bytes,
        weight_bytes=weight_bytes(model),
        empty_instructions=sum(block.instructions for block in nothing.blocks),
        distance=_distance(run.outputs, selftest.expected) if is_comparable else None,
    ).scaled(several.elapsed if several else None, ours.elapsed)


def _inputs_of(model: Path, package: Package, selftest: Selftest) -> list[npt.NDArray[Any]]:
    """Return the self-test's inputs in the order in which a peer's model file has them.

    The states of a TFLite model are variables inside it, and no inputs.
    """
    states = len(package.manifest.states) if model_format(model) == "tflite" else 0
    return selftest.inputs[: len(selftest.inputs) - states]


def _counts(run: PeerRun, core: Core, mca: Mca) -> InferenceCounts:
    libraries: Counter[str] = Counter()
    for block in run.blocks:
        libraries[block.image] += block.instructions
    cycles = sum(cost.cycles for cost in block_costs(run.blocks, core, mca))
    return InferenceCounts(
        libraries=dict(libraries.most_common()),
        estimated_cycles=round(cycles),
        cycles_with_caches=round(cycles + line_cycles(*(run.misses or (0, 0)))),
    )


def _distance(outputs: Sequence[npt.NDArray[Any]], expected: Sequence[npt.NDArray[Any]]) -> float:
    # Where onnxruntime returns labels as strings, the package returns numbers, which cannot be compared with
    # strings.
    pairs = [pair for pair in zip(outputs, expected, strict=True) if pair[0].dtype.kind != "U"]
    return max((distance(*pair).relative for pair in pairs), default=0.0)
