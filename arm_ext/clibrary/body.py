# SPDX-License-Identifier: Apache-2.0
"""C code of a program: its steps as statements, and the functions that the threads of a pool call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from arm_ext.clibrary.memory import Layout
from arm_ext.clibrary.npu import NpuRegion
from arm_ext.clibrary.program import (
    Branch,
    Copy,
    KernelStep,
    Loop,
    Memory,
    Program,
    Step,
    TensorPlace,
    calls_of,
)
from arm_ext.clibrary.text import comment
from arm_ext.report.calls import CONVERSIONS

# C variables with the address of each kind of memory; each region has a variable of its own.
_MEMORIES: dict[Memory, str] = {
    "weights": "const unsigned char *weights",
    "input": "const {}_input *in",
    "output": "const {}_output *out",
}
_NAMED_SOURCES = 4  # maximum number of source nodes in a text about a call


def named(sources: Sequence[str], nodes: Mapping[str, str]) -> str:
    """Return the names of a call's first source nodes, and the number of further ones.

    Args:
        sources: The source nodes. Conversions between float and integers are left out where there are others.
        nodes: Source node → its operator.
    """
    operators = [name for name in sources if nodes.get(name) not in CONVERSIONS]
    told = operators or sources
    more = len(told) - _NAMED_SOURCES
    return ", ".join(told[:_NAMED_SOURCES]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Body:
    """C code of a program: its steps as statements.

    Attributes:
        name: Name of the library.
        suffix: Suffix of the names of this program's functions.
        program: The steps to write as C.
        layout: Where each value lies in memory.
        symbols: Kernel → symbol that the C code calls.
        checked: Kernel that checks indices → the number of its message among the library's.
        is_open: Whether the program takes a length.
        shared: C names of the parts of the weights that other models of the library read, too.
        npu: The regions that are offered to an NPU.
        nodes: Source node → its operator.
    """

    name: str
    suffix: str
    program: Program
    layout: Layout
    symbols: Mapping[str, str]
    checked: Mapping[str, int]
    is_open: bool = False
    shared: Mapping[int, str] = field(default_factory=dict)
    npu: Sequence[NpuRegion] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def parallel(self) -> list[KernelStep]:
        """The kernel calls whose parallel loops are divided among threads."""
        return [step for step in calls_of(self.program.steps) if step.tasks]

    @property
    def can_fail(self) -> bool:
        """Whether a kernel checks its indices, so that a run can fail."""
        return any(step.kernel in self.checked for step in calls_of(self.program.steps))

    @property
    def statements(self) -> str:
        """C statements of the steps."""
        return "".join(f"{line}\n" for line in self._block(self.program.steps))

    @property
    def regions(self) -> str:
        """Definitions of the regions' variables."""
        return "".join(f"    {line}\n    (void){name};\n" for name, line in self._region_variables("memory"))

    @property
    def tasks(self) -> str:
        """C functions for the parallel calls, one for each call."""
        return "".join(map(self._task, self.parallel))

    def _region_variables(self, memory: str) -> list[tuple[str, str]]:
        """Return, for each memory region, the name and the definition of its C variable."""
        names = [region.name for region in self.layout.regions]
        return [(name, f"unsigned char *{name} = {memory}[{number}];") for number, name in enumerate(names)]

    def _address(self, place: TensorPlace) -> str:
        each = f" + {place.stride} * thread" if place.stride else ""
        if place.memory == "weights":
            return f"weights + {place.offset}"
        if place.memory == "shared":
            return f"{self.shared[place.index]} + {place.offset}"
        if place.memory == "buffer":
            address = self.layout.buffers[place.index]
            assert address is not None
            return f"{self.layout.regions[address.region].name} + {address.offset + place.offset}{each}"
        data = f"{'in' if place.memory == 'input' else 'out'}[{place.index}].data"
        if not place.offset:
            return data
        qualifier = "const " if place.memory == "input" else ""
        return f"({qualifier}unsigned char *){data} + {place.offset}"

    def _block(self, steps: Sequence[Step]) -> list[str]:
        return [f"    {line}" for step in steps for line in self._lines(step)]

    def _lines(self, step: Step) -> list[str]:
        if isinstance(step, Branch):
            if not step.then:  # no steps in this branch, as after an NPU has computed the region
                unless = self._condition(step.condition, is_false=True)
                return [f"if ({unless}) {{", *self._block(step.otherwise), "}"]
            lines = [f"if ({self._condition(step.condition)}) {{", *self._block(step.then)]
            return [*lines, *(["} else {", *self._block(step.otherwise)] if step.otherwise else []), "}"]
        if isinstance(step, Loop):
            return [f"while ({self._condition(step.condition)}) {{", *self._block(step.body), "}"]
        if isinstance(step, Copy):
            target, source = self._address(step.target), self._address(step.source)
            copy = f"memcpy({target}, {source}, {step.bytes});"
            return [f"if ({target} != {source}) {{", f"    {copy}", "}"] if step.unless_same else [copy]
        told = named(step.sources, self.nodes)
        lines = [f"/* {comment(told)} */"] if told else []
        if step.tasks:
            part = f"&(part){{memory, weights, in, out{', length' if self.is_open else ''}}}"
            return [*lines, f"share(pool, {step.tasks}, {self._task_name(step)}, {part});"]
        arguments = [self._address(place) for place in step.arguments]
        if step.region is not None:
            return [*lines, *self._offer(step.region, arguments)]
        if step.sort is not None:
            return [*lines, f"{step.kernel}({', '.join([*arguments, *map(str, step.sort.numbers)])});"]
        arguments += [step.length.text] if step.length is not None else []
        if step.kernel not in self.checked:
            return [*lines, f"{self.symbols[step.kernel]}({', '.join(arguments)});"]
        call = f"{self.symbols[step.kernel]}({', '.join([*arguments, '&failed'])});"
        failed = self._failed(self.checked[step.kernel], "INDEX")
        return [*lines, call, "if (failed != 0) {", *failed, "}"]

    def _offer(self, number: int, arguments: Sequence[str]) -> list[str]:
        """Return C statements that offer a region to an NPU, and store a flag whether the NPU computed it."""
        region, (payload, *tensors) = self.npu[number], arguments
        taken = tensors.pop() if region.has_fallback else None
        scratch = tensors.pop() if region.scratch_bytes else "NULL"
        count = len(region.inputs)
        return [
            "{",
            f"    const void *const given[] = {{{', '.join([*tensors[:count], 'NULL'])}}};",
            f"    void *const wanted[] = {{{', '.join([*tensors[count:], 'NULL'])}}};",
            f"    const int done = offer(npu, {number}, {payload}, {scratch}, given, wanted);",
            f"    if (done {'<' if taken else '<='} 0) {{",
            *(f"    {line}" for line in self._failed(len(self.checked) + 1 + number, "NPU")),
            "    }",
            *([f"    *({taken}) = done != 0;"] if taken else []),
            "}",
        ]

    def _failed(self, message: int, code: str) -> list[str]:
        """Return C statements that end the run with an error code, and store the number of the error message."""
        return [f"    instance->failure = {message};", f"    return {self.name.upper()}_ERROR_{code};"]

    def _condition(self, place: TensorPlace, *, is_false: bool = False) -> str:
        return f"*(const unsigned char *)({self._address(place)}) {'==' if is_false else '!='} 0"

    def _task_name(self, step: KernelStep) -> str:
        number = next(number for number, each in enumerate(self.parallel) if each is step)
        return f"task{self.suffix}_{number}"

    def _task(self, step: KernelStep) -> str:
        """Return the C function that a thread calls for one iteration."""
        used = {place.memory for place in step.arguments}
        regions = {
            self.layout.regions[address.region].name
            for place in step.arguments
            if place.memory == "buffer" and (address := self.layout.buffers[place.index])
        }
        arguments = [*map(self._address, step.arguments)]
        arguments += [step.length.text] if step.length is not None else []
        lines = [
            "const part *whole = context;",
            *(line for name, line in self._region_variables("whole->memory") if name in regions),
            *(
                f"{declared.format(self.name)} = whole->{declared.rpartition('*')[2]};"
                for memory, declared in _MEMORIES.items()
                if memory in used
            ),
            "(void)thread;",
            *(["const int64_t length = whole->length;"] if step.length is not None else []),
            f"{self.symbols[step.kernel]}({', '.join(arguments)}, (int32_t)index);",
        ]
        body = "".join(f"    {line}\n" for line in lines)
        return f"static void {self._task_name(step)}(void *context, size_t index, size_t thread)\n{{\n{body}}}\n\n"
