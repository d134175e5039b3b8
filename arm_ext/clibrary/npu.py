# SPDX-License-Identifier: Apache-2.0
"""Regions of a model that an NPU may compute, as a C library describes them to the code that drives the NPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arm_ext.clibrary.text import literal, render

_MEMORIES = 8  # that a command stream can address


@dataclass(frozen=True)
class NpuTensor:
    """An input or output of a region: the number of its memory, its offset there, and its bytes."""

    memory: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class NpuRegion:
    """A region and where the parts of its payload are.

    Attributes:
        accelerator: Such as "ethos-u65-256".
        insists: Whether a failure on the NPU is an error, in place of the CPU's work.
        payload_bytes: Size of the payload.
        commands: Offset and size of the commands in it.
        weights: Offset and size of the weights.
        memories: Number → kind and size, for each memory that the commands address.
        inputs: In the order of the call.
        outputs: Likewise.
    """

    accelerator: str
    insists: bool
    payload_bytes: int
    commands: tuple[int, int]
    weights: tuple[int, int]
    memories: Mapping[int, tuple[str, int]]
    inputs: Sequence[NpuTensor]
    outputs: Sequence[NpuTensor]

    @property
    def tensors(self) -> list[NpuTensor]:
        """Inputs, then outputs."""
        return [*self.inputs, *self.outputs]


def header_values(
    name: str, regions: Sequence[NpuRegion], folder: str, *, has_driver: bool
) -> dict[str, str]:
    """Return the values of placeholders in the header and the example of a library whose regions are in a folder."""
    text = f"; {name}_npu_linux.h is one behind Linux's driver" if has_driver else ""
    values = {
        "name": name,
        "NAME": name.upper(),
        "npu_regions": str(len(regions)),
        "npu_linux_text": text,
        "npu_folder": folder,
    }
    macro = f"{name.upper()}_ON_NPU"
    return {
        "helpers": render("npu_type.h", values),
        "helper_member": f"    const {name}_npu *npu;\n",
        "helper_include": f'#ifdef {macro}\n#include "{name}_npu_linux.h"\n#endif\n' if has_driver else "",
        "helper_create": f"#ifdef {macro}\n    const {name}_npu *npu = &{name}_npu_linux;\n#else\n"
        f"    const {name}_npu *npu = NULL;\n#endif\n"
        if has_driver
        else f"    const {name}_npu *npu = NULL;\n",
        "helper_pass": ", npu",
        "helper_destroy": "",
        "py_none": ", None",
    }


def code_values(name: str, regions: Sequence[NpuRegion]) -> dict[str, str]:
    """Return what differs in the code of a library with regions."""
    values = {"name": name, "NAME": name.upper()}
    rows, tensors = "", ""
    begin = 0
    for number, region in enumerate(regions):
        rows += _row(name, number, region, begin)
        tensors += "".join(f"    {{{t.memory}, {t.offset}, {t.bytes}}},\n" for t in region.tensors)
        begin += len(region.tensors)
    return {
        "npu_tables": render("npu_tables.c", values | {"npu_rows": rows, "npu_tensors": tensors}),
        "helper_check": render("npu_check.c", values),
        "helper_kept": "    instance->npu = npu;\n",
        "helper_used": f"    const {name}_npu *npu = instance->npu;\n    (void)npu;\n",
    }


def _row(name: str, number: int, region: NpuRegion, begin: int) -> str:
    memories = [region.memories.get(each, ("none", 0)) for each in range(_MEMORIES)]
    told = ", ".join(f"{{{name.upper()}_NPU_{kind.upper()}, {size}}}" for kind, size in memories)
    parts = ", ".join(map(str, (*region.commands, *region.weights)))
    return (
        f"    {{{number}, {literal(region.accelerator)}, {int(region.insists)}, {region.payload_bytes}, {parts},\n"
        f"     {{{told}}},\n     {len(region.inputs)}, {len(region.outputs)}, npu_tensors + {begin}}},\n"
    )
