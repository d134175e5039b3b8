# SPDX-License-Identifier: Apache-2.0
"""The C sources of a library: header, calls in order, tables, and an example that runs the self-test."""

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from tvm import tirx

from arm_ext.clibrary.body import Body, named
from arm_ext.clibrary.facts import CompiledFacts, Region, ShapeFacts, State, Tensor, tensor_bytes
from arm_ext.clibrary.memory import ARENA, BufferAddress, Ends, Layout, MemoryRegion, arrange
from arm_ext.clibrary.npu import NpuRegion
from arm_ext.clibrary.open_size import OpenLength, OpenSamples, OpenSize, open_bytes, open_dims
from arm_ext.clibrary.program import KernelStep, Program, calls_of
from arm_ext.clibrary.scales import Scale, scales_of
from arm_ext.clibrary.shared import Group, Shared
from arm_ext.clibrary.text import comment, file_identifier, identifier, identifiers, render
from arm_ext.common.version import __version__
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.package.manifest import Check
from arm_ext.pipeline.codegen import assertions
from arm_ext.pipeline.selftest import STEPS
from arm_ext.target.npu import ACCELERATORS
from arm_ext.target.profiles import Profile
from relay_passes.memory.plan_arena import ALIGNMENT, aligned

# Suffixes of the macros of an input or output.
_MACRO_ENDINGS = ("_type", "_shape", "_elements", "_bytes", "_scale", "_zero_point")
# Members of the C++ class.
_CPP_NAMES = "arena begin inputs outputs memory run status step reset shape length samples tensor failure"


@dataclass(frozen=True)
class Shape:
    """The program of a library for inputs of one shape.

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
    """Generates the text of a model's files in a library.

    Attributes:
        shapes: The shapes, at least one; all have the same weights.
        profile: The target.
        check: How the self-test compares outputs.
        weights_in_file: Whether the weights are in a file, which the caller maps.
        threads: Most threads of a pool that share a kernel; 1 without a pool.
        regions: Memory that the caller gives an instance, the fastest first.
        group: What the model has in common with others of the library; None if the library has no other
            model.
        npu: Regions that an NPU may compute.
    """

    shapes: tuple[Shape, ...]
    profile: Profile
    check: Check
    weights_in_file: bool = False
    threads: int = 1
    regions: tuple[MemoryRegion, ...] = ARENA
    group: Group | None = None
    npu: Sequence[NpuRegion] = ()

    @property
    def model(self) -> ImportedModel:
        """The model as imported for the first shape."""
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
        """`TensorPlace.index` of shared weights → the constants and kernels that are shared."""
        return {} if self.group is None else self.group.shared

    @property
    def shared_bytes(self) -> int:
        """Bytes of the shared weights."""
        return sum(len(each.weights) for each in self.shared.values())

    @property
    def example(self) -> str:
        """Name of the example's C file."""
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

    @property
    def has_bare_driver(self) -> bool:
        """Whether the NPU of its regions is driven without an operating system."""
        return bool(self.npu) and self.profile.core.is_microcontroller

    @cached_property
    def kernels(self) -> Mapping[str, tirx.PrimFunc]:
        """Name → kernel, for the kernels of all shapes."""
        return {name: func for shape in self.shapes for name, func in shape.program.kernels.items()}

    @property
    def own_kernels(self) -> dict[str, tirx.PrimFunc]:
        """Symbol → kernel, for the kernels that no other model calls."""
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
        """Constants, then nonzero initial values of states; if the weights are in a file, those of all models."""
        if self.group is not None and self.group.file is not None:
            return b"".join(self.group.file.parts)
        data = self.shapes[-1].program.weights
        for initial in self._initial:
            data += bytes(-len(data) % self.alignment) + initial
        return data

    def files(self, facts: CompiledFacts) -> dict[str, str]:
        """Return the text of each file by its path."""
        known = self._known(facts)
        name = self.name
        files: dict[str, str] = {}
        if self.threads > 1:
            files |= {f"include/{name}_pool.h": "pool.h", f"src/{name}_pool.c": "pool.c"}
        if self.has_driver:
            files |= {f"include/{name}_npu_linux.h": "npu_linux.h", f"src/{name}_npu_linux.c": "npu_linux.c"}
        if self.has_bare_driver:
            files |= {
                f"include/{name}_npu_ethosu.h": "npu_ethosu.h",
                f"src/{name}_npu_ethosu.c": "npu_ethosu.c",
            }
        files |= {
            f"include/{name}.h": "model.h",
            f"include/{name}.hpp": "model.hpp",
            f"src/{name}.c": "model.c",
            f"src/{name}_text.c": "text.c",
            f"python/{name}.py": "module.py.in",
            f"example/{self.example}.c": "main.c",
            f"example/{self.data}.S": "selftest.S",
        }
        return {path: render(template, known) for path, template in files.items()}

    @cached_property
    def layouts(self) -> list[Layout]:
        """Placement of buffers for each shape: intermediate values and states.

        Inputs and outputs if they can be in the arena.
        """
        # Inputs and outputs with a run-time number of samples cannot be in the arena.
        ins, outs = (0, 0) if isinstance(self._open, OpenSamples) else self._step
        return [
            arrange(
                shape.program,
                Ends(
                    tuple(map(tensor_bytes, shape.model.inputs[:ins])),
                    tuple(map(tensor_bytes, shape.model.outputs[:outs])),
                    self._state_bytes,
                ),
                self.regions,
            )
            for shape in self.shapes
        ]

    @property
    def region_bytes(self) -> list[int]:
        """Size of each region in bytes, as the maximum over all shapes."""
        return [max(sizes) for sizes in zip(*(layout.bytes for layout in self.layouts), strict=True)]

    @property
    def in_place_bytes(self) -> list[int]:
        """Size of each region in bytes if inputs and outputs are in the regions, as the maximum over all shapes."""
        return [max(sizes) for sizes in zip(*(layout.in_place_bytes for layout in self.layouts), strict=True)]

    @property
    def alignment(self) -> int:
        """Alignment of regions, and of constants and states, in bytes."""
        return self.regions[0].alignment

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

    @property
    def _failures(self) -> list[str]:
        """Error messages of a run: of checked kernels, then of regions."""
        offers = {step.region: step.sources for step in self._calls if step.region is not None}
        nodes = [named(offers[number], self.model.nodes) for number in range(len(self.npu))]
        regions = [f"{each}: a region failed on the NPU" for each in nodes]
        return [*self._checked.values(), *regions]

    @property
    def _calls(self) -> list[KernelStep]:
        """The calls of all shapes."""
        return [step for body in self._bodies for step in calls_of(body.program.steps)]

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
        sizes = [aligned(state.initial.nbytes, self.alignment) for state in self.model.states]
        return sum(size * (1 if index in self._in_place else 2) for index, size in enumerate(sizes))

    @cached_property
    def _in_place(self) -> frozenset[int]:
        """Indices of the states that the programs of all shapes change in place."""
        first = len(self.model.inputs) - len(self.model.states)
        kept = [{index - first for index in shape.program.in_place} for shape in self.shapes]
        return frozenset(range(len(self.model.states))).intersection(*kept)

    @cached_property
    def _step(self) -> tuple[int, int]:
        """Return the numbers of inputs and outputs of `step`."""
        count = len(self.model.states)
        outputs = len(self.model.outputs)
        return len(self.model.inputs) - count, outputs if outputs == count else outputs - count

    def _known(self, facts: CompiledFacts) -> dict[str, object]:
        """Return the facts that the templates of all files insert."""
        return {
            **self._names(),
            **self._tensor_facts(),
            **self._memory_facts(),
            **self._code_facts(),
            "requires": facts.requires,
            "has_math": facts.has_math,
            "stack_bytes": facts.stack_bytes,
            "group": self.group,
            "weights_in_file": self.weights_in_file,
            "has_pool": self.threads > 1,
            "threads": self.threads,
            "npu": self.npu,
            "npu_folder": "npu" if self.group is None else f"models/{self.name}/npu",
            "without_fpu": self.profile.core.is_microcontroller and not self.profile.core.isa.has_fpu,
            "has_driver": self.has_driver,
            "has_bare_driver": self.has_bare_driver,
            "npu_fallback": all(region.has_fallback for region in self.npu),
            "npu_scratch": any(region.scratch_bytes for region in self.npu),
        }

    def _names(self) -> dict[str, object]:
        """Return the names of the model and its files, and the model's version."""
        model, name = self.model, self.name
        return {
            "name": name,
            "NAME": name.upper(),
            "archive": self.archive,
            "data": self.data,
            "title": comment(f"{model.name} ({model.format})"),
            "version": __version__,
            "target": f"{self.profile.name} ({self.profile.triple})",
            "sha256": model.sha256,
            "mark": f"0x{hashlib.sha256(f'{name} {model.sha256}'.encode()).hexdigest()[:8]}",
            "bound": repr(self.check.relative_bound),
            "differing": repr(self.check.differing),
            "reason": comment(self.check.reason),
        }

    def _tensor_facts(self) -> dict[str, object]:
        """Return facts about inputs, outputs and states, and about the argument for their run-time size."""
        shapes = self._shape_facts()
        inputs = [_largest(tensors) for tensors in zip(*(shape.inputs for shape in shapes), strict=True)]
        outputs = [_largest(tensors) for tensors in zip(*(shape.outputs for shape in shapes), strict=True)]
        ends = [*inputs, *outputs]
        return {
            "shapes": shapes,
            "inputs": inputs,
            "outputs": outputs,
            "size": self._open.argument if self._open is not None else "shape" if self._several else "",
            "open": self._open,
            "first_open": next((tensor.index for tensor in inputs if tensor.open_dims), None),
            "largest_bytes": max((tensor.bytes for tensor in ends), default=0),
            "dimensions": max([1, *(len(tensor.spec.shape) for tensor in ends)]),
            "sizes_divide": _divide(text for tensor in ends for text in tensor.open_dims.values()),
            "bytes_divide": _divide(tensor.open_bytes for tensor in ends),
            "states": self._states,
            "in_place_states": ", but for those that a step changes in place: call reset"
            if self._in_place
            else "",
            "state_places": self.layouts[0].states,
            "step_inputs": self._step[0],
            "step_outputs": self._step[1],
            # The shapes share their states: as in the self-test, several steps of the first shape test the states.
            "step_runs": f"(shape == 0 ? {STEPS} : 1)" if len(self.shapes) > 1 else str(STEPS),
        }

    def _shape_facts(self) -> list[ShapeFacts]:
        names = identifiers(
            (spec.name for spec in (*self.model.inputs, *self.model.outputs)), _CPP_NAMES.split()
        )
        count = len(self.model.inputs)
        ins, outs = self._scales
        return [
            ShapeFacts(
                identifier(f"of {shape.label}").upper().removeprefix("OF_"),
                self._tensors("input", shape.model.inputs, body.layout.inputs, names[:count], ins),
                self._tensors("output", shape.model.outputs, body.layout.outputs, names[count:], outs),
                body,
            )
            for shape, body in zip(self.shapes, self._bodies, strict=True)
        ]

    def _tensors(
        self,
        kind: Literal["input", "output"],
        specs: Sequence[TensorSpec],
        places: Sequence[BufferAddress | None],
        arguments: Sequence[str],
        scales: Sequence[Scale],
    ) -> list[Tensor]:
        """Return the inputs or the outputs of a shape."""
        macros = identifiers((spec.name for spec in specs), endings=_MACRO_ENDINGS)
        nowhere = BufferAddress(len(self.regions), 0)
        found = []
        for index, spec in enumerate(specs):
            place = places[index] if index < len(places) else None
            macro = f"{self.name}_{kind}_{macros[index]}".upper()
            tensor = Tensor(spec, index, scales[index], place or nowhere, macro, arguments[index])
            if self._open is not None:
                dims = (self._open.inputs if kind == "input" else self._open.outputs)[index]
                tensor = replace(
                    tensor, open_bytes=open_bytes(dims, tensor.item_bytes), open_dims=open_dims(dims)
                )
            found.append(tensor)
        return found

    def _memory_facts(self) -> dict[str, object]:
        """Return facts about memory regions and weights."""
        sizes = zip(self.regions, self.region_bytes, self.in_place_bytes, strict=True)
        return {
            "regions": [Region(region.name, *each) for region, *each in sizes],
            "owns_arena": self.regions == (replace(ARENA[0], alignment=self.alignment),),
            "alignment": self.alignment,
            "weights_bytes": len(self.weights),
            "weights_crc": zlib.crc32(self.weights) if self.weights_in_file else None,
            "shared": [each for each in self.shared.values() if each.weights],
            "shared_bytes": self.shared_bytes,
            "result_bytes": self._result_bytes,
        }

    def _code_facts(self) -> dict[str, object]:
        """Return the functions that the code declares and calls, and the error messages of a run."""
        compiled = {step.kernel: step for step in self._calls if step.is_compiled}
        sorts = {(step.sort.dtype, step.sort.index) for step in self._calls if step.sort is not None}
        return {
            "kernels": {self.symbols[name]: self._parameters(step) for name, step in compiled.items()},
            "sorts": sorted(sorts),
            "has_tasks": any(body.parallel for body in self._bodies),
            "code_divides": _divide(text for body in self._bodies for text in (body.tasks, body.statements)),
            "failures": self._failures,
        }

    def _parameters(self, step: KernelStep) -> list[str]:
        """Return the C types of the parameters of a kernel."""
        return [
            *["const void *"] * len(step.arguments),
            *["int64_t"] * (step.length is not None),
            *["int32_t *"] * (step.kernel in self._checked),
            *["int32_t"] * bool(step.tasks),
        ]

    @cached_property
    def _states(self) -> list[State]:
        states, offset, end = [], 0, len(self.shapes[-1].program.weights)
        file = None if self.group is None else self.group.file
        for index, state in enumerate(self.model.states):
            initial, size = 0, aligned(state.initial.nbytes, self.alignment)
            if state.initial.any():
                begin = aligned(end, self.alignment) if file is None else file.add(state.initial.tobytes())
                initial, end = begin + 1, begin + state.initial.nbytes
            after = offset if index in self._in_place else offset + size
            states.append(State(state.input, offset, after, state.initial.nbytes, initial))
            offset = after + size
        return states

    @property
    def _result_bytes(self) -> int:
        """Size in bytes of the outputs that the example compares."""
        sizes = [sum(aligned(tensor_bytes(spec)) for spec in shape.model.outputs) for shape in self.shapes]
        samples = self._open.tested if isinstance(self._open, OpenSamples) else 1
        return max(ALIGNMENT, samples * max(sizes))


FREESTANDING = frozenset({"memcpy", "memmove", "memset", "memcmp"})
"""Functions that C compilers may call in any program."""


def weights_source(symbol: str, file: str, alignment: int) -> str:
    """Return assembler that includes weights from a file, at a multiple of `alignment` bytes."""
    return render("weights.S", {"symbol": symbol, "file": file, "alignment": alignment})


def _largest(tensors: Sequence[Tensor]) -> Tensor:
    """Return an input or output as it is in the shape for which it is largest."""
    specs = [tensor.spec for tensor in tensors]
    return replace(max(tensors, key=lambda tensor: tensor.bytes), varies=len(set(specs)) > 1)


def _divide(texts: Iterable[str]) -> bool:
    """Whether C code calls the function that computes quotients."""
    return any("quotient(" in text for text in texts)
