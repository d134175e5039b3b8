# SPDX-License-Identifier: Apache-2.0
"""C sources that run a package's regions on an Ethos-U without an operating system.

They call `ethosu_invoke_v3` of Arm's ethos-u-core-driver. Its `base_addr[i]` is the address of region i; these
addresses and that of the command stream must be multiples of 16. A driver that was given fast memory uses it as
region 2.
"""

import re
from collections.abc import Iterator, Sequence

from arm_ext.ethosu.payload import MemoryArea, Payload, PayloadTensor

_ALIGNMENT = 16  # alignment of commands and base addresses in bytes, which the driver checks

_TYPES = """\
#ifndef ARM_EXT_NPU_TENSOR
#define ARM_EXT_NPU_TENSOR
enum arm_ext_npu_dtype {
  ARM_EXT_NPU_BOOL, ARM_EXT_NPU_INT8, ARM_EXT_NPU_UINT8, ARM_EXT_NPU_INT16, ARM_EXT_NPU_UINT16,
  ARM_EXT_NPU_INT32, ARM_EXT_NPU_UINT32, ARM_EXT_NPU_INT64
};

/* An input or output: so many bytes, packed and in C order, at an offset in a region's memory. */
struct arm_ext_npu_tensor {
  const char *name;
  int region;
  size_t offset, bytes;
  enum arm_ext_npu_dtype dtype;
  int rank;
  int32_t shape[6];
};
#endif
"""


def identifier(name: str) -> str:
    """Return the C identifier for a model's name."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
    return word if word and not word[0].isdigit() else f"model_{word}".rstrip("_")


def region_name(model: str, number: int) -> str:
    """Return the prefix of a region's C symbols; `model` is an identifier."""
    return f"{model}_region_{number}"


def header(model: str, accelerator: str, payloads: Sequence[Payload]) -> str:
    """Return the C header of a model's regions: sizes, tables of inputs and outputs, and one function per region."""
    guard = f"{model}_npu_h".upper()
    lines = [
        f"/* The regions of {model} for {accelerator}; made by arm-ext export-payload. */",
        *(f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>", "#include <stdint.h>", ""),
        *('#ifdef __cplusplus\nextern "C" {\n#endif', "", "struct ethosu_driver;", "", _TYPES),
    ]
    for number, payload in enumerate(payloads):
        lines += _declared(region_name(model, number), payload)
    return "\n".join([*lines, "#ifdef __cplusplus\n}\n#endif", "", "#endif", ""])


def source(model: str, payloads: Sequence[Payload]) -> str:
    """Return the C source that implements the header's functions by calls of the driver."""
    lines = [f'#include "{model}_npu.h"', "", "#include <ethosu_driver.h>", ""]
    for number, payload in enumerate(payloads):
        name = region_name(model, number)
        lines += [*_table(name, "inputs", payload.inputs), *_table(name, "outputs", payload.outputs)]
        lines += _invoke(name, payload)
    return "\n".join(lines)


def data(model: str, payloads: Sequence[Payload]) -> str:
    """Return assembly that includes the files of commands and weights by .incbin, to be found by -I."""
    lines = []
    for number, payload in enumerate(payloads):
        for part, _ in parts(payload):
            symbol = f"{region_name(model, number)}_{part}"
            lines += [f'  .section .rodata.{symbol}, "a", %progbits', f"  .balign {_ALIGNMENT}"]
            lines += [f"  .global {symbol}", f"{symbol}:", f'  .incbin "{symbol}.bin"', ""]
    return "\n".join([*lines, '  .section .note.GNU-stack, "", %progbits', ""])


def parts(payload: Payload) -> list[tuple[str, bytes]]:
    """Return the names and bytes of a payload's constant data: commands and weights, if not empty."""
    both = [("commands", payload.commands), ("weights", payload.weights)]
    return [(name, content) for name, content in both if content]


def _memories(payload: Payload) -> list[MemoryArea]:
    """Return the memory regions that the caller has to provide."""
    return [region for region in payload.regions if region.kind != "weights" and region.size]


def _declared(name: str, payload: Payload) -> Iterator[str]:
    upper, memories = name.upper(), _memories(payload)
    for part, content in parts(payload):
        yield f"#define {upper}_{part.upper()}_BYTES {len(content)}"
    for region in memories:
        yield f"#define {upper}_{region.kind.upper()}_BYTES {region.size}"
    for role, tensors in (("inputs", payload.inputs), ("outputs", payload.outputs)):
        yield f"#define {upper}_{role.upper()} {len(tensors)}"
        if tensors:
            yield f"extern const struct arm_ext_npu_tensor {name}_{role}[{upper}_{role.upper()}];"
    for part, _ in parts(payload):
        yield f"extern const uint8_t {name}_{part}[{upper}_{part.upper()}_BYTES];"
    wanted = ", ".join(f"`{r.kind}` (region {r.number})" for r in memories)
    yield ""
    yield f"/* Runs it: 0 if that went well. Memory for {wanted or 'nothing else'} at multiples of {_ALIGNMENT}. */"
    yield f"int {_signature(name, payload)};"
    yield ""


def _signature(name: str, payload: Payload) -> str:
    memories = "".join(f"void *{region.kind}, " for region in _memories(payload))
    return f"{name}_invoke(struct ethosu_driver *driver, {memories}void *user)"


def _table(name: str, role: str, tensors: Sequence[PayloadTensor]) -> Iterator[str]:
    if not tensors:
        return
    yield f"const struct arm_ext_npu_tensor {name}_{role}[{name.upper()}_{role.upper()}] = {{"
    for t in tensors:
        shape = ", ".join(map(str, t.shape)) or "0"
        dtype = f"ARM_EXT_NPU_{t.dtype.upper()}"
        rank = len(t.shape)
        yield f"  {{{_string(t.name)}, {t.region}, {t.offset}, {t.size}, {dtype}, {rank}, {{{shape}}}}},"
    yield from ("};", "")


def _invoke(name: str, payload: Payload) -> Iterator[str]:
    count = max(region.number for region in payload.regions) + 1
    yield f"int {_signature(name, payload)} {{"
    yield f"  uint64_t bases[{count}] = {{0}};"
    yield f"  size_t sizes[{count}] = {{0}};"
    for region in payload.regions:
        if region.size:
            memory = f"{name}_weights" if region.kind == "weights" else region.kind
            yield f"  bases[{region.number}] = (uintptr_t){memory};"
            yield f"  sizes[{region.number}] = {region.size};"
    commands = f"{name}_commands, {name.upper()}_COMMANDS_BYTES"
    yield f"  return ethosu_invoke_v3(driver, {commands}, bases, sizes, {count}, user);"
    yield from ("}", "")


def _string(text: str) -> str:
    """Return a C string literal of a text's UTF-8 bytes."""
    plain = {*range(0x20, 0x7F)} - set(b'"\\?')
    return '"' + "".join(chr(c) if c in plain else f"\\{c:03o}" for c in text.encode()) + '"'
