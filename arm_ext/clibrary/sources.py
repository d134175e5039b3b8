# SPDX-License-Identifier: Apache-2.0
"""The C sources of a library: header, calls in order, tables, and an example that runs the self-test."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tvm import tirx

from arm_ext.clibrary.body import Body, named
from arm_ext.clibrary.memory import ARENA, Ends, Layout, MemoryRegion, arrange
from arm_ext.clibrary.npu import NpuRegion, code_values, header_values
from arm_ext.clibrary.open_size import OpenLength, OpenSamples, OpenSize, quotient_for
from arm_ext.clibrary.program import Program, calls_of
from arm_ext.clibrary.scales import Scale, scales_of
from arm_ext.clibrary.shared import Group, Shared
from arm_ext.clibrary.text import comment, file_identifier, identifier, identifiers, literal, render
from arm_ext.common.version import __version__
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.package.manifest import Check
from arm_ext.pipeline.codegen import assertions
from arm_ext.pipeline.selftest import STEPS
from arm_ext.target.npu import ACCELERATORS
from arm_ext.target.profiles import Profile
from relay_passes.memory.plan_arena import ALIGNMENT, aligned

_C_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_LINE = 112  # most characters of parameters in a line
# Endings of the macros of an input or output.
_MACRO_ENDINGS = ("_type", "_shape", "_elements", "_bytes", "_scale", "_zero_point")
# Variables and functions of the C++ class.
_CPP_NAMES = "arena begin inputs outputs memory run status step reset shape length samples tensor failure"
# Placeholders of the templates that are empty in a library with one shape of fixed sizes.
_NOTHING = """shape_parameter shape_pass place_parameter place_pass compute_parameter compute_pass shapes shape_text
hpp_shape hpp_shape_only hpp_shape_check hpp_place open_limit open_parameter open_pass open_check open_needs
length_used part_length tensor_text tensor_parameter tensor_pass tensor_declaration py_open py_imports"""
# Placeholders of a library whose instances are given a pool of threads, or an NPU.
_HELPER_VALUES = (
    *("helpers", "helper_member", "helper_include", "helper_create", "helper_pass", "helper_destroy"),
    "py_none",
)
# Format characters of Python's module struct. binary16 has that of a 16-bit integer, since not every Python version can
# read "e" in a memoryview.
_PYTHON_TYPES = {
    "bool": "?",
    "float16": "H",
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
}


@dataclass(frozen=True)
class Facts:
    """Facts about a library that are known once it is compiled.

    Attributes:
        requires: Functions that the library calls and does not define.
        stack_bytes: Most stack that a call takes, without the functions in `requires`; None if it was not
            analysed.
        has_math: Whether some model of the library calls libm.
    """

    requires: tuple[str, ...] = ()
    stack_bytes: int | None = None
    has_math: bool = False


def tensor_bytes(spec: TensorSpec) -> int:
    """Return the bytes of an input or output."""
    return int(np.prod(spec.shape, dtype=np.int64)) * np.dtype(spec.dtype).itemsize


@dataclass(frozen=True)
class Shape:
    """The program that a library has for inputs of one shape.

    Attributes:
        label: The sizes chosen in it; empty where there is one shape.
        model: The model as imported for that shape.
        program: The program, with workspaces as `with_workspaces` adds them.
        open: The size that the functions take, if they take one; `model` then has its greatest value.
    """

    label: str
    model: ImportedModel
    program: Program
    open: OpenSize | None = None


@dataclass(frozen=True)
class Sources:
    """Text of a model's files in a library.

    Attributes:
        shapes: The shapes, at least one; all have the same weights.
        profile: The target.
        check: How the self-test compares outputs.
        apart: Whether the weights are a file of their own, which the caller maps.
        threads: Most threads of a pool that share a kernel; 1 without a pool.
        regions: Memory that the caller gives an instance, the fastest first.
        group: What the model has in common with others of the library; None if the library has no other
            model.
        npu: Regions that an NPU may compute.
    """

    shapes: tuple[Shape, ...]
    profile: Profile
    check: Check
    apart: bool = False
    threads: int = 1
    regions: tuple[MemoryRegion, ...] = ARENA
    group: Group | None = None
    npu: Sequence[NpuRegion] = ()

    @property
    def model(self) -> ImportedModel:
        """The model, of the first shape."""
        return self.shapes[0].model

    @cached_property
    def name(self) -> str:
        """Prefix of all symbols."""
        return file_identifier(self.model.name)

    @property
    def archive(self) -> str:
        """Name of the library."""
        return self.name if self.group is None else self.group.archive

    @property
    def shared(self) -> Mapping[int, Shared]:
        """`TensorPlace.index` of each weight that other models of the library read, too → what they share."""
        return {} if self.group is None else self.group.shared

    @property
    def shared_bytes(self) -> int:
        """Bytes of the shared weights."""
        return sum(len(each.weights) for each in self.shared.values())

    @property
    def example(self) -> str:
        """Name of the example's file, in C."""
        return "main" if self.group is None else self.name

    @property
    def data(self) -> str:
        """Name of the files with the data of the self-test."""
        return "selftest" if self.group is None else self.name

    @property
    def has_driver(self) -> bool:
        """Whether Linux has a driver for the NPU of its regions."""
        accelerators = (ACCELERATORS[region.accelerator] for region in self.npu)
        return "linux" in self.profile.triple and any(each.has_linux_driver for each in accelerators)

    @cached_property
    def kernels(self) -> Mapping[str, tirx.PrimFunc]:
        """The kernels of all shapes."""
        return {name: func for shape in self.shapes for name, func in shape.program.kernels.items()}

    @property
    def own_kernels(self) -> dict[str, tirx.PrimFunc]:
        """The kernels that no other model calls, by symbol."""
        common = {} if self.group is None else self.group.symbols
        return {self.symbols[name]: func for name, func in self.kernels.items() if name not in common}

    @cached_property
    def symbols(self) -> Mapping[str, str]:
        """Kernel → its symbol."""
        kernels = list(self.kernels)
        own = dict(zip(kernels, (f"{self.name}_k_{each}" for each in identifiers(kernels)), strict=True))
        return own if self.group is None else {**own, **self.group.symbols}

    @cached_property
    def weights(self) -> bytes:
        """Constants, then the initial values of states unless zeros; if weights are a file, those of all models."""
        if self.group is not None and self.group.file is not None:
            return b"".join(self.group.file.parts)
        data = self.shapes[-1].program.weights
        for initial in self._initial:
            data += bytes(-len(data) % ALIGNMENT) + initial
        return data

    def files(self, facts: Facts) -> dict[str, str]:
        """Return the text of each file by its path."""
        values = self._values(facts)
        name = self.name
        pool = {
            f"include/{name}_pool.h": render("pool.h", values),
            f"src/{name}_pool.c": render("pool.c", values),
        }
        driver = {
            f"include/{name}_npu_linux.h": render("npu_linux.h", values),
            f"src/{name}_npu_linux.c": render("npu_linux.c", values),
        }
        return (
            (pool if self.threads > 1 else {})
            | (driver if self.has_driver else {})
            | {
                f"include/{name}.h": render("model.h", values),
                f"include/{name}.hpp": render("model.hpp", values | self._cpp(values)),
                f"src/{name}.c": render("model.c", values | self._code(values)),
                f"src/{name}_text.c": render("text.c", {**values, "failures": self._failures(values)}),
                f"python/{name}.py": render("module.py.in", values | self._python(values)),
                f"example/{self.example}.c": render("main.c", values | self._example_values(values)),
                f"example/{self.data}.S": render("selftest.S", values),
            }
        )

    @cached_property
    def layouts(self) -> list[Layout]:
        """The placement of buffers for each shape: intermediate values, states, inputs and outputs in place."""
        # Inputs and outputs with a run-time number of samples cannot lie in the arena.
        ins, outs = (0, 0) if isinstance(self._open, OpenSamples) else self._step
        return [
            arrange(
                shape.program,
                Ends(
                    tuple(map(tensor_bytes, shape.model.inputs[:ins])),
                    tuple(map(tensor_bytes, shape.model.outputs[:outs])),
                    2 * self._state_bytes,
                ),
                self.regions,
            )
            for shape in self.shapes
        ]

    @property
    def region_bytes(self) -> list[int]:
        """Bytes that each region takes, for any shape."""
        return [max(sizes) for sizes in zip(*(layout.bytes for layout in self.layouts), strict=True)]

    @property
    def in_place_bytes(self) -> list[int]:
        """Bytes that each region takes with inputs and outputs in place."""
        return [max(sizes) for sizes in zip(*(layout.in_place_bytes for layout in self.layouts), strict=True)]

    @cached_property
    def _bodies(self) -> list[Body]:
        return [
            Body(
                self.name,
                f"_{number}" if self._several else "",
                shape.program,
                layout,
                self.symbols,
                {name: number for number, name in enumerate(self._checked, 1)},
                isinstance(shape.open, OpenLength),
                {index: each.symbol for index, each in self.shared.items()},
                self.npu,
                self.model.nodes,
            )
            for number, (shape, layout) in enumerate(zip(self.shapes, self.layouts, strict=True))
        ]

    @cached_property
    def _checked(self) -> dict[str, str]:
        """Kernel → the error message if an index is out of bounds, for the kernels that check indices."""
        told = {name: assertions(func) for name, func in self.kernels.items()}
        return {name: "; ".join(messages) for name, messages in told.items() if messages}

    def _failures(self, values: Mapping[str, str]) -> str:
        """Return the C function that tells why a run ended: messages of checked kernels, then of regions."""
        calls = [step for body in self._bodies for step in calls_of(body.program.steps)]
        nodes = self.model.nodes
        offers = {step.region: named(step.sources, nodes) for step in calls if step.region is not None}
        regions = [f"{offers[number]}: a region failed on the NPU" for number in range(len(self.npu))]
        rows = [f"    {literal(text)},\n" for text in (*self._checked.values(), *regions)]
        return render("failure.c" if rows else "no_failure.c", {**values, "failure_rows": "".join(rows)})

    @cached_property
    def _scales(self) -> tuple[list[Scale], list[Scale]]:
        """Return the quantisation of inputs and of outputs, which is the same for all shapes."""
        return scales_of(self.model.mod)

    @property
    def _open(self) -> OpenSize | None:
        return self.shapes[0].open

    @property
    def _several(self) -> bool:
        return len(self.shapes) > 1

    @cached_property
    def _initial(self) -> list[bytes]:
        return [state.initial.tobytes() for state in self.model.states if state.initial.any()]

    @cached_property
    def _state_bytes(self) -> int:
        return sum(aligned(state.initial.nbytes) for state in self.model.states)

    @cached_property
    def _step(self) -> tuple[int, int]:
        """Return the numbers of inputs and of outputs that `step` takes."""
        count = len(self.model.states)
        outputs = len(self.model.outputs)
        return len(self.model.inputs) - count, outputs if outputs == count else outputs - count

    def _values(self, facts: Facts) -> dict[str, str]:
        """Return the placeholders that all files have, but for those of one file alone."""
        values = {
            **self._names(),
            **self._compiled_values(facts),
            **self._tensor_values(),
            **self._group_values(),
            **self._memory_values(),
            **self._shape_values(),
            **self._embedded_values(),
        }
        if self.apart:
            values |= self._weights_values(values)
        if self.threads > 1:
            values |= self._pool_values(values)
        if self.npu:
            values |= self._npu_values(values)
        if len(values["init_parameters"]) > _LINE:
            values["init_parameters"] = values["init_parameters"].replace(", ", ",\n    ")
        if self._open is None:
            kinds = ({"kind": kind, "KIND": kind.upper()} for kind in ("input", "output"))
            values["tensor_functions"] = "".join(render("tensor.c", values | kind) for kind in kinds)
        values["states"] = render("states.h", values) if self.model.states else ""
        return values

    def _names(self) -> dict[str, str]:
        """Return the placeholders that say which model and which version of it this is."""
        model, name = self.model, self.name
        return {
            "name": name,
            "NAME": name.upper(),
            "archive": self.archive,
            "title": comment(f"{model.name} ({model.format})"),
            "version": __version__,
            "target": f"{self.profile.name} ({self.profile.triple})",
            "sha256": model.sha256,
            "mark": f"0x{hashlib.sha256(f'{name} {model.sha256}'.encode()).hexdigest()[:8]}",
            "bound": repr(self.check.relative_bound),
            "reason": comment(self.check.reason),
        }

    def _compiled_values(self, facts: Facts) -> dict[str, str]:
        """Return the placeholders of facts that are known once the library is compiled."""
        return {
            "requires": ", ".join(facts.requires) or "nothing",
            "pc_libraries": "-lm" if facts.has_math else "",
            "stack": _stack(self.name.upper(), facts),
        }

    def _tensor_values(self) -> dict[str, str]:
        """Return the placeholders of inputs, outputs and states."""
        inputs = [shape.model.inputs for shape in self.shapes]
        outputs = [shape.model.outputs for shape in self.shapes]
        in_scales, out_scales = self._scales
        macros = [*self._macros("INPUT", inputs, in_scales), *self._macros("OUTPUT", outputs, out_scales)]
        return {
            "inputs": str(len(inputs[0])),
            "outputs": str(len(outputs[0])),
            "dimensions": str(
                max([1, *(len(spec.shape) for specs in (*inputs, *outputs) for spec in specs)])
            ),
            "tensors": "\n".join(macros),
            "input_table": "".join(_table(self.name, specs, in_scales) for specs in inputs),
            "output_table": "".join(_table(self.name, specs, out_scales) for specs in outputs),
            "states_count": str(len(self.model.states)),
            "step_inputs": str(self._step[0]),
            "step_outputs": str(self._step[1]),
        }

    def _embedded_values(self) -> dict[str, str]:
        """Return the placeholders of a library that has its weights inside, and neither a pool nor an NPU."""
        empty = ("weights_text", "example_weights", "example_file", "example_declaration", "hpp_weights")
        return {
            "weights": f"{self.name}_weights",
            "weights_bytes": str(len(self.weights)),
            "threads": str(self.threads),
            **dict.fromkeys((*empty, *_HELPER_VALUES), ""),
        }

    def _group_values(self) -> dict[str, str]:
        """Return the placeholders that depend on whether the library has several models."""
        entry = "main" if self.group is None else f"{self.name}_check"
        shared = [each for each in self.shared.values() if each.weights]
        return {
            "selftest_file": f"{self.data}.bin",
            "entry_declaration": "" if self.group is None else f"int {entry}(void);\n\n",
            "entry": entry,
            "shared_bytes": f"/** Size in bytes of constants that other models of lib{self.archive}.a read, too. */\n"
            f"#define {self.name.upper()}_SHARED_WEIGHTS_BYTES {self.shared_bytes}u\n"
            if shared
            else "",
            "shared_declaration": "".join(
                f"HIDDEN extern const unsigned char {each.symbol}[];\n\n" for each in shared
            ),
            "shared_overlap": "".join(
                f"            overlap(out[i].data, out[i].bytes, {each.symbol}, {len(each.weights)}) ||\n"
                for each in shared
            ),
        }

    def _shape_values(self) -> dict[str, str]:
        """Return the placeholders that depend on whether there are several shapes, or an open size."""
        one = self._one_shape()
        if self._open is not None:
            calls = f"    wrong += selftest(&instance, {self._open.tested}, &data);\n"
            return one | self._open.values(self.name, self.model) | {"selftest_calls": calls}
        return one | (self._shapes_values() if self._several else {})

    def _one_shape(self) -> dict[str, str]:
        """Return the placeholders of a library with one shape of fixed sizes."""
        return dict.fromkeys(_NOTHING.split(), "") | {
            "compute": "compute",
            "shape_count": "1",
            "selftest_calls": "    wrong += selftest(&instance, &data);\n",
            "shape_check": "    const size_t shape = 0;\n",
            "input_needed": "        const need *needed = &input_needs[shape][i];\n",
            "output_needed": "        const need *needed = &output_needs[shape][i];\n",
        }

    def _shapes_values(self) -> dict[str, str]:
        """Return the placeholders of a library with several shapes."""
        prefix = self.name.upper()
        rows = [
            f"/** {comment(', '.join(spec.describe() for spec in shape.model.inputs))} */\n"
            f"#define {prefix}_SHAPE_{identifier(f'of {shape.label}').upper().removeprefix('OF_')} {number}\n"
            for number, shape in enumerate(self.shapes)
        ]
        return {
            "shapes": f"/** Number of shapes. */\n#define {prefix}_SHAPES {len(self.shapes)}\n{''.join(rows)}\n",
            **dict.fromkeys(("shape_parameter", "place_parameter"), "size_t shape, "),
            **dict.fromkeys(("shape_pass", "place_pass", "compute_pass"), "shape, "),
            "shape_check": "",
            "shape_text": f" `shape` is the number of a\n * shape, from 0 to {prefix}_SHAPES - 1.",
            "shape_count": str(len(self.shapes)),
            **dict.fromkeys(("hpp_shape", "hpp_place"), "std::size_t shape, "),
            "hpp_shape_only": "std::size_t shape",
            "hpp_shape_check": f"        if (shape >= {prefix}_SHAPES) {{\n            return {prefix}_ERROR_SHAPE;\n"
            "        }\n",
            "selftest_calls": f"    for (size_t shape = 0; shape < {prefix}_SHAPES; shape++) {{\n"
            "        wrong += selftest(&instance, shape, &data);\n    }\n",
        }

    def _memory_values(self) -> dict[str, str]:
        """Return the placeholders that depend on the regions of memory."""
        prefix = self.name.upper()
        names = [region.name for region in self.regions]
        macros = [f"{prefix}_{name.upper()}" for name in names]
        sizes = [
            f"/** Size in bytes of the region `{name}`. */\n"
            f"#define {macro}_BYTES {size}u\n"
            "/** The same with places for inputs and outputs. */\n"
            f"#define {macro}_IN_PLACE_BYTES {in_place}u\n"
            for name, macro, size, in_place in zip(
                names, macros, self.region_bytes, self.in_place_bytes, strict=True
            )
        ]
        return {
            "regions": str(len(names)),
            "alignment": str(ALIGNMENT),
            "region_sizes": "".join(sizes),
            "region_names": ", ".join(names),
            "region_bytes": ", ".join(f"{name}_bytes" for name in names),
            "region_needs": ", ".join(f"{macro}_BYTES" for macro in macros),
            "region_in_place_needs": ", ".join(f"{macro}_IN_PLACE_BYTES" for macro in macros),
            "init_parameters": f"{self.name}_instance *instance, "
            + ", ".join(f"void *{name}, size_t {name}_bytes" for name in names),
            "example_regions": "".join(
                f"static _Alignas({ALIGNMENT}) unsigned char {name}[{macro}_BYTES];\n"
                for name, macro in zip(names, macros, strict=True)
            ),
            "example_arguments": ", ".join(f"{name}, sizeof {name}" for name in names),
            **(self._heap() if self.regions == ARENA else self._given_regions(names)),
            "py_regions": "".join(f"{size}, " for size in self.in_place_bytes),
        }

    def _heap(self) -> dict[str, str]:
        """Return the placeholders of a C++ class that allocates its arena on the heap."""
        prefix = self.name.upper()
        return {
            "hpp_owns": " with an arena of its own",
            "hpp_constructor": "",
            "hpp_takes": "\n        : memory_(new (std::nothrow) unsigned char"
            f"[{prefix}_ARENA_IN_PLACE_BYTES + {prefix}_ARENA_ALIGNMENT])",
            "hpp_begins": render("heap.hpp", {"NAME": prefix}),
            "hpp_arguments": f"arena, {prefix}_ARENA_IN_PLACE_BYTES",
            "hpp_memory": "    std::unique_ptr<unsigned char[]> memory_;\n",
        }

    @staticmethod
    def _given_regions(names: Sequence[str]) -> dict[str, str]:
        """Return the placeholders of a C++ class that is given its memory."""
        return {
            "hpp_owns": " in memory of the caller's",
            "hpp_constructor": ", ".join(f"void *{name}, std::size_t {name}_bytes" for name in names),
            "hpp_takes": "",
            "hpp_begins": "",
            "hpp_arguments": ", ".join(f"{name}, {name}_bytes" for name in names),
            "hpp_memory": "",
        }

    def _weights_values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the placeholders that depend on whether the weights are a file of their own."""
        name = self.name
        return {
            "init_parameters": f"{values['init_parameters']}, const void *weights, size_t weights_bytes",
            "weights_text": f"\n *\n * `weights` is the content of {self.archive}.weights, aligned as the arena. It "
            "is compared with a checksum, and read until\n * the instance is no longer run.",
            "weights": "weights",
            "example_weights": f", {self.archive}_weights_file, {name.upper()}_WEIGHTS_BYTES",
            "example_file": f"    .balign {ALIGNMENT}\n    .globl {name}_weights_file\n{name}_weights_file:\n"
            f'    .incbin "../{name}.weights"\n'
            if self.group is None
            else "",
            "example_declaration": f"extern const unsigned char {self.archive}_weights_file[];\n",
            "hpp_constructor": f"{values['hpp_constructor']}, const void *weights, std::size_t bytes".removeprefix(
                ", "
            ),
            "hpp_weights": ", weights, bytes",
        }

    def _pool_values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the placeholders that depend on whether threads of a pool share kernels."""
        name = self.name
        return {
            "helpers": render("pool_type.h", values),
            "helper_member": f"    const {name}_pool *pool;\n",
            "init_parameters": f"{values['init_parameters']}, const {name}_pool *pool",
            "weights_text": f"{values['weights_text']}\n *\n * If `pool` is null, the calling thread computes "
            "everything, with the same results.",
            "helper_include": f'#include "{name}_pool.h"\n',
            "helper_create": f"    static {name}_threads threads;\n"
            f"    if ({name}_pool_create(&threads, {name.upper()}_THREADS) != 0) {{\n        return 3;\n    }}\n",
            "helper_pass": ", &threads.pool",
            "helper_destroy": f"    {name}_pool_destroy(&threads);\n",
            "hpp_constructor": f"{values['hpp_constructor']}, const {name}_pool *pool = nullptr".removeprefix(
                ", "
            ),
            "hpp_weights": f"{values['hpp_weights']}, pool",
            "py_none": ", None",
        }

    def _npu_values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the template values that change where an NPU may compute regions."""
        name = self.name
        folder = "npu" if self.group is None else f"models/{name}/npu"
        own = header_values(name, self.npu, folder, has_driver=self.has_driver)
        return {key: values[key] + text for key, text in own.items()} | {
            "init_parameters": f"{values['init_parameters']}, const {name}_npu *npu",
            "weights_text": f"{values['weights_text']}\n *\n * If `npu` is null, the CPU computes everything, "
            "with the same results.",
            "hpp_constructor": f"{values['hpp_constructor']}, const {name}_npu *npu = nullptr".removeprefix(
                ", "
            ),
            "hpp_weights": f"{values['hpp_weights']}, npu",
        }

    def _macros(
        self, kind: str, shapes: Sequence[Sequence[TensorSpec]], scales: Sequence[Scale]
    ) -> list[str]:
        """Return the macros of inputs or outputs; of several shapes, with the sizes of the largest."""
        lines = []
        names = identifiers((spec.name for spec in shapes[0]), endings=_MACRO_ENDINGS)
        for index, (specs, short) in enumerate(zip(zip(*shapes, strict=True), names, strict=True)):
            spec = max(specs, key=tensor_bytes)
            macro = f"{self.name}_{kind}_{short}".upper()
            lines += [
                f"/** {comment(spec.describe())}{', or smaller' if len(set(specs)) > 1 else ''} */",
                f"#define {macro} {index}",
                f"#define {macro}_TYPE {self.name.upper()}_{spec.dtype.upper()}",
                *([f"#define {macro}_SHAPE {{{', '.join(map(str, spec.shape))}}}"] if spec.shape else []),
                f"#define {macro}_ELEMENTS {int(np.prod(spec.shape, dtype=np.int64))}u",
                f"#define {macro}_BYTES {tensor_bytes(spec)}u",
            ]
            if scale := scales[index]:
                lines += [
                    f"#define {macro}_SCALE {scale.c_scale}",
                    f"#define {macro}_ZERO_POINT ({scale.zero_point})",
                ]
        return lines

    def _code(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the placeholders of the C that calls the kernels."""
        helpers = self._helper_code(values)
        code = {
            **helpers,
            **self._weights_code(values),
            **self._tables(),
            **self._functions({**values, **helpers}),
            "reset": f"    (void){self.name}_reset(instance);\n" if self.model.states else "",
            "states": render("states.c", {**values, **self._state_code()}) if self.model.states else "",
        }
        return code | {"quotient": quotient_for(code["tasks"], code["bodies"], values["open_needs"])}

    def _weights_code(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the C code about weights: their declaration, or the check of the file that holds them."""
        if not self.apart:
            declaration = f"HIDDEN extern const unsigned char {self.name}_weights[];\n\n"
            return {"weights_declaration": declaration, "checksum": "", "weights_check": ""}
        checksum = {"weights_crc": f"0x{zlib.crc32(self.weights):08X}"}
        return {
            "weights_declaration": "",
            "checksum": render("checksum.c", values),
            "weights_check": render("weights_check.c", {**values, **checksum}),
        }

    def _tables(self) -> dict[str, str]:
        """Return the rows of the tables of inputs and outputs: what each needs, and where it may be in the arena."""
        models = [shape.model for shape in self.shapes]
        ins = [body.places(body.layout.inputs, len(self.model.inputs)) for body in self._bodies]
        outs = [body.places(body.layout.outputs, len(self.model.outputs)) for body in self._bodies]
        return {
            "input_needs": "".join(_table_of(_needs(model.inputs)) for model in models),
            "output_needs": "".join(_table_of(_needs(model.outputs)) for model in models),
            "input_places": "".join(map(_table_of, ins)),
            "output_places": "".join(map(_table_of, outs)),
        }

    def _functions(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the functions that compute the model, and the declarations of those that they call."""
        bodies = self._bodies
        calls = [step for body in bodies for step in calls_of(body.program.steps)]
        kernels = {
            step.kernel: (len(step.arguments), step.length is not None, bool(step.tasks))
            for step in calls
            if step.is_compiled
        }
        sorts = {(step.sort.dtype, step.sort.index) for step in calls if step.sort is not None}
        types = [
            {"type": dtype, "ctype": _C_TYPES[dtype], "index": index, "cindex": _C_TYPES[index]}
            for dtype, index in sorted(sorts)
        ]
        share = render("share.c", values) if any(body.parallel for body in bodies) else ""
        choose = render("choose.c", {**values, "cases": self._cases()}) if self._several else ""
        samples = render("samples.c", values) if isinstance(self._open, OpenSamples) else ""
        computes = [render("compute.c", {**values, **self._body_values(body)}) for body in bodies]
        return {
            "kernels": "\n".join(self._declaration(kernel, *taken) for kernel, taken in kernels.items()),
            "sorts": "".join(render("sort.c", each) for each in types),
            "tasks": "".join([share, *(body.tasks for body in bodies)]),
            "bodies": "".join([*computes, choose, samples]),
        }

    def _helper_code(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the template values for the code that serves a pool of threads and an NPU."""
        pool = {
            "npu_tables": "",
            "helper_check": render("pool_check.c", values),
            "helper_kept": "    instance->pool = pool;\n",
            "helper_used": f"    const {self.name}_pool *pool = instance->pool;\n    (void)pool;\n",
        }
        if self.threads == 1:
            pool = dict.fromkeys(pool, "")
        own = code_values(self.name, self.npu) if self.npu else {}
        return {key: text + own.get(key, "") for key, text in pool.items()}

    @staticmethod
    def _body_values(body: Body) -> dict[str, str]:
        return {
            "suffix": body.suffix,
            "memory": body.regions,
            "failed": "    int32_t failed = 0;\n" if body.can_fail else "",
            "steps": body.statements,
        }

    def _cases(self) -> str:
        return "".join(
            f"    case {number}:\n        return compute{body.suffix}(instance, in, out);\n"
            for number, body in enumerate(self._bodies)
        )

    def _declaration(self, kernel: str, count: int, has_length: bool, is_task: bool) -> str:
        checked = kernel in self._bodies[0].checked
        taken = ["const void *"] * count + ["int64_t"] * has_length
        taken += ["int32_t *"] * checked + ["int32_t"] * is_task
        return f"HIDDEN void {self.symbols[kernel]}({', '.join(taken) or 'void'});"

    def _state_code(self) -> dict[str, str]:
        rows, at, initial = [], 0, len(self.shapes[-1].program.weights)
        file = None if self.group is None else self.group.file
        for state in self.model.states:
            begins = 0
            if state.initial.any():
                initial = aligned(initial) if file is None else file.add(state.initial.tobytes())
                begins = initial + 1
                initial += state.initial.nbytes
            rows.append(f"    {{{at}, {state.initial.nbytes}, {begins}}}, /* {comment(state.input)} */\n")
            at += aligned(state.initial.nbytes)
        states = self.layouts[0].states
        assert states is not None
        return {
            "state_region": str(states.region),
            "state_places": str(states.offset),
            "state_bytes": str(at),
            "state_table": "".join(rows),
        }

    def _cpp(self, values: Mapping[str, str]) -> dict[str, str]:
        model = self.model
        names = identifiers((spec.name for spec in (*model.inputs, *model.outputs)), _CPP_NAMES.split())
        ins, outs = names[: len(model.inputs)], names[len(model.inputs) :]
        asked = "shape, {}" if self._several else ""
        if self._open is not None:
            asked = f"{self._open.argument}, {{}}, &tensor"
        whole = _signature(self.name, model.inputs, model.outputs, ins, outs, asked=asked)
        whole["hpp_run"] = f"{values['hpp_shape']}{whole['hpp_run']}"
        step_in, step_out = self._step
        part = _signature(
            self.name,
            model.inputs[:step_in],
            model.outputs[:step_out],
            ins[:step_in],
            outs[:step_out],
            "step_",
            asked=asked,
        )
        if self._several:
            part["hpp_step"] = f"std::size_t shape, {part['hpp_step']}"
        states = render("states.hpp", {**values, **part}) if model.states else ""
        return whole | {"states": states}

    def _python(self, values: Mapping[str, str]) -> dict[str, str]:
        shapes = [_python_specs(shape.model) for shape in self.shapes]
        title = values["title"].replace('"', "'")
        apart = {
            "py_weights": ', weights: str | Path = Path(__file__).parents[1] / "'
            + f'{self.archive}.weights"',
            "py_hold": "        data = Path(weights).read_bytes()\n"
            "        self._weights = ctypes.create_string_buffer(len(data) + _ALIGNMENT)\n"
            "        ctypes.memmove(_aligned(self._weights), data, len(data))\n",
            "py_pass": ", _aligned(self._weights), ctypes.c_size_t(len(data))",
        }
        return {
            "title": title,
            "py_shapes": "".join(f"    (({inputs}), ({outputs})),\n" for inputs, outputs in shapes),
            "py_scales": "".join(
                f"    {spec.name!a}: ({scale.scale!r}, {scale.zero_point}),\n"
                for specs, scales in zip((self.model.inputs, self.model.outputs), self._scales, strict=True)
                for spec, scale in zip(specs, scales, strict=True)
                if scale
            ),
            "py_shape": render(
                "lengths.py.in" if self._open else "shapes.py.in" if self._several else "shape.py.in",
                values,
            ),
            "py_states": render("states.py.in", values) if self.model.states else "",
            **(apart if self.apart else dict.fromkeys(apart, "")),
        }

    def _example_values(self, values: Mapping[str, str]) -> dict[str, str]:
        results = max(
            sum(aligned(tensor_bytes(spec)) for spec in shape.model.outputs) for shape in self.shapes
        )
        if isinstance(self._open, OpenSamples):
            results *= self._open.tested
        steps = ""
        if self.model.states:
            steps = render("steps.c", {**values, "step_runs": str(STEPS)})
        return {
            "steps": steps,
            "steps_text": ", then those of the first steps" if self.model.states else "",
            "result_bytes": str(max(results, ALIGNMENT)),
        }


FREESTANDING = frozenset({"memcpy", "memmove", "memset", "memcmp"})
"""Functions that C compilers may call in any program."""


def weights_source(symbol: str, file: str) -> str:
    """Return assembler that includes weights from a file."""
    return render("weights.S", {"symbol": symbol, "file": file, "alignment": str(ALIGNMENT)})


def _stack(prefix: str, facts: Facts) -> str:
    if facts.stack_bytes is None:
        return f"/* {prefix}_STACK_BYTES is known for aarch64 only. */"
    return (
        "/** Largest stack in bytes that a call of the library takes, without that of functions which the library\n"
        " * calls and does not define, such as those of a pool of threads. */\n"
        f"#define {prefix}_STACK_BYTES {facts.stack_bytes}u"
    )


def _table(name: str, specs: Sequence[TensorSpec], scales: Sequence[Scale]) -> str:
    rows = []
    for spec, scale in zip(specs, scales, strict=True):
        shape = ", ".join(map(str, spec.shape)) or "0"
        elements = int(np.prod(spec.shape, dtype=np.int64))
        rows.append(
            f"    {{{literal(spec.name)}, {name.upper()}_{spec.dtype.upper()}, {len(spec.shape)}, {{{shape}}}, "
            f"{elements}, {tensor_bytes(spec)}, {scale.c_scale}, {scale.zero_point}}},\n"
        )
    return "".join(rows)


def _python_specs(model: ImportedModel) -> list[str]:
    return [
        "".join(f"({spec.name!a}, {spec.shape}, {_PYTHON_TYPES[spec.dtype]!r}), " for spec in specs)
        for specs in (model.inputs, model.outputs)
    ]


def _table_of(rows: str) -> str:
    """Return the rows of a shape; C has no tables without rows."""
    return f"    {{\n{rows}        {{0, 1}},\n    }},\n"


def _needs(specs: Sequence[TensorSpec]) -> str:
    return "".join(f"        {{{tensor_bytes(spec)}, {np.dtype(spec.dtype).itemsize}}},\n" for spec in specs)


def _signature(
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    ins: Sequence[str],
    outs: Sequence[str],
    kind: str = "",
    *,
    asked: str = "",
) -> dict[str, str]:
    taken = [f"const {_pointer(spec)}{name}" for spec, name in zip(inputs, ins, strict=True)]
    given = [f"{_pointer(spec)}{name}" for spec, name in zip(outputs, outs, strict=True)]
    key = f"hpp_{kind}"
    return {
        "hpp_step" if kind else "hpp_run": ", ".join([*taken, *given]),
        f"{key}inputs": _initializers(ins, _sizes(inputs, f"{name}_input_tensor({asked})" if asked else "")),
        f"{key}outputs": _initializers(
            outs, _sizes(outputs, f"{name}_output_tensor({asked})" if asked else "")
        ),
    }


def _sizes(specs: Sequence[TensorSpec], call: str) -> list[str]:
    """Return the bytes of tensors as expressions, which call a function where they are not fixed."""
    if call:
        return [f"{call.format(index)}->bytes" for index in range(len(specs))]
    return [str(tensor_bytes(spec)) for spec in specs]


def _pointer(spec: TensorSpec) -> str:
    element = _C_TYPES[spec.dtype]
    return f"{'std::' if element.endswith('_t') else ''}{element} *"


def _initializers(names: Sequence[str], sizes: Sequence[str]) -> str:
    pairs = [f"{{{name}, {size}}}" for name, size in zip(names, sizes, strict=True)]
    return ", ".join([*pairs, "{nullptr, 0}"])
