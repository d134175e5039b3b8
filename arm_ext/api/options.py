# SPDX-License-Identifier: Apache-2.0
"""The options of `compile` as one record; the other commands use some of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy.typing as npt

from arm_ext.api.arguments import check_choice, check_type
from arm_ext.clibrary.library import Weights
from arm_ext.common.errors import UsageError
from arm_ext.common.names import near
from arm_ext.ethosu.options import NpuOptions
from arm_ext.frontends.preprocess.options import Preprocess
from arm_ext.package.manifest import Method, Precision
from arm_ext.shapes.given import Given
from relay_passes import Rule
from schedules.kernels.common.contract import Kernel

Emit = Literal["package", "c-library"]
"""Kind of output that `compile` writes."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options by which a model is read, and changed before it is compiled.

    Attributes:
        shapes: Input name → shape, for inputs with dynamic dimensions. A list in the place of a size is of sizes
            to choose from at run time; lists go together position by position. A name in the place of the first size
            is any number of samples, computed one by one; "n<=512" in the place of any size is each up to 512.
        values: Input name → its numbers, of an ONNX model: the package is for these alone, and has no such input.
        random: What replaces random numbers of an ONNX model: "zeros", "seed=N" for numbers that are the same at each
            run, or "input" for inputs with the names of the nodes' outputs.
        preprocess: Steps before and after the model that the package computes too, or a YAML file of them.
        state: Input name → name of the output that is its value in the next `step`; buffers that a PyTorch program
            changes are such states too.
        state_init: What the first step begins with, input name → array, or an .npz of them; by default the value that
            the model has for it, or zeros.
        quantize: .npz with calibration samples, to quantise a float model to int8.
        calibration: How the range of an activation follows from the samples.
        inputs: Inputs of the self-test, in the model's order, or an .npz as for `accuracy`, whose first sample they
            are; seeded random ones by default.
    """

    shapes: Given | None = None
    values: Mapping[str, npt.ArrayLike] | None = None
    random: str | None = None
    preprocess: Preprocess | str | Path | None = None
    state: Mapping[str, str] | None = field(default_factory=dict)
    state_init: Mapping[str, npt.NDArray[Any]] | str | Path | None = None
    quantize: str | Path | None = None
    calibration: Method = "minmax"
    inputs: Sequence[npt.NDArray[Any]] | str | Path | None = None

    def __post_init__(self) -> None:
        """Check types, and replace a `state` of None by an empty mapping."""
        check_type("values", self.values or {}, Mapping)
        check_type("state", self.state or {}, Mapping)
        check_choice("calibration", self.calibration, Method)
        object.__setattr__(self, "state", self.state or {})

    @property
    def files(self) -> list[Path]:
        """The files that these options name."""
        given = (self.preprocess, self.state_init, self.quantize, self.inputs)
        return [Path(each) for each in given if isinstance(each, str | Path)]


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """The options of `compile`.

    Attributes:
        example_inputs: Arguments of a module's forward, by which it is exported: a tuple of positional ones
            or a dict of named ones.
        trust: Whether a .pt2 file may run code of its own when it is opened; without it, one that would is refused.
        plugins: Python files of yours with converters of custom operators, rules and kernels; they run here, with
            your rights. The self-test is computed with their converters, without their rules and kernels.
        mattr: Features to add and remove, such as "+i8mm,-sve".
        precision: What float operators compute in; "fp16" and "bf16" are for float models, and keep sums
            in fp32; in "bf16" it is products alone.
        winograd: Whether float convolutions may be computed by Winograd's transforms, whose rounding errors are
            some four times those of a plain sum.
        without: Names of kernels that are not to be used, such as "depthwise_s8"; the next best take their place.
        npu: An Ethos-U for parts of a quantised model, such as "ethos-u65-256", or that and how to divide.
        tuned: A tuning database, whose records for the target decide kernels and their parameters.
        rules: Graph rewrites of your own, applied beside ours; the self-test is computed without them, so that
            `run --check` shows whether they keep the values.
        kernels: Kernels of your own to choose among beside ours, where all sizes are known; the self-test is computed
            without them, too.
        memory_budget: Most bytes of memory allowed: of activations at their peak, states, and in a package weights,
            which are constants of the program in a C library.
        fail_on_unpacked: Whether integer weights that no kernel reads as integers, and so become float, are an error.
        emit: What to write: a "package", which TVM's runtime runs, or a "c-library", a static library with a
            header, which needs no runtime.
        weights: Where a C library's weights are: "embedded" in it, or in a "file" beside it, which the program maps.
        threads: How many threads of a pool share a kernel of a C library at most; a package's runtime has its own.
        memory: Regions of memory that a C library's caller gives it, the fastest first, such as "fast=512K,slow=8M";
            by default one arena of whatever size.
        dump_phases: Folder for each phase's module as TVMScript, beside what else is there.
        cc: Compiler driver to use instead of the pinned ziglang: it links a package, and compiles the C of a C library.
        force: Whether to write to a folder where other files are, too, which stay.
        cache: Whether kernels that were compiled before are taken from the user's cache, and new ones kept there.
    """

    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None
    trust: bool = False
    plugins: Sequence[str | Path] = ()
    mattr: str | None = None
    precision: Precision = "fp32"
    winograd: bool = True
    without: Sequence[str] = ()
    npu: NpuOptions | str | None = None
    tuned: str | Path | None = None
    rules: Sequence[Rule] = ()
    kernels: Sequence[Kernel] = ()
    memory_budget: int | None = None
    fail_on_unpacked: bool = False
    emit: Emit = "package"
    weights: Weights = "embedded"
    threads: int = 1
    memory: str | None = None
    dump_phases: str | Path | None = None
    cc: str | None = None
    force: bool = False
    cache: bool = True

    def __post_init__(self) -> None:
        """Check types and choices."""
        super().__post_init__()
        check_type("memory", self.memory or "", str)
        check_choice("emit", self.emit, Emit)
        check_choice("weights", self.weights, Weights)
        check_choice("precision", self.precision, Precision)

    @property
    def files(self) -> list[Path]:
        """The files that these options name."""
        vela_config = self.npu.vela_config if isinstance(self.npu, NpuOptions) else None
        others = [Path(each) for each in (self.tuned, vela_config, *self.plugins) if each is not None]
        return [*super().files, *others]


OPTIONS = frozenset(each.name for each in fields(Options))
"""Names of all options."""

IMPORT = frozenset({"shapes", "values", "trust", "plugins", "preprocess", "quantize", "calibration"})
"""Names of the options by which a model is read; every verb that reads one takes them."""


_Record = TypeVar("_Record", bound=ModelOptions)


def gathered(
    verb: str,
    record: type[_Record],
    options: ModelOptions | None,
    given: Mapping[str, Any],
    takes: Collection[str] = OPTIONS,
) -> _Record:
    """Return the record of a command's options, made of a record and keyword arguments.

    Args:
        verb: Name of the verb, for messages.
        record: The verb's record, which may have options of its own.
        options: Options in a record.
        given: Options by keyword; they replace those of the record.
        takes: Names of the options of `Options` that the verb takes.

    Raises:
        UsageError: There is no such option, the verb does not take one that is given, or one has a wrong value.
    """
    check_type("options", options or record(), ModelOptions)
    known = {each.name: each for each in fields(record)}
    own = set() if record is Options else {*record.__annotations__}
    taken = [name for name in known if name in takes or name in own]
    of_record = (
        {} if options is None else {each.name: getattr(options, each.name) for each in fields(options)}
    )
    default = record()
    changed = {
        name: value
        for name, value in {**of_record, **given}.items()
        if name in given or value is not getattr(default, name, None)
    }
    for name in changed:
        if name not in known and name not in OPTIONS:
            raise UsageError(f"{verb}: there is no option {name}; {near(name, sorted(taken))}")
        if name not in taken and changed[name] != getattr(Options(), name):
            raise UsageError(f"{verb} has no option {name}; its options are {', '.join(sorted(taken))}")
    return record(**{name: value for name, value in changed.items() if name in taken})
