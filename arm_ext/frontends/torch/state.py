# SPDX-License-Identifier: Apache-2.0
"""Buffers that an exported program changes, which become states."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, OutputSpec


@dataclass(frozen=True, eq=False)
class Buffer:
    """A buffer that the program changes.

    Attributes:
        name: The module's name for it.
        input: Name of the graph input that stands for the buffer.
        value: Initial value of the buffer.
    """

    name: str
    input: str
    value: torch.Tensor

    @property
    def output(self) -> str:
        """Name of the output with the buffer's next value."""
        return f"{self.name}.next"


def drop_numbers(program: ExportedProgram) -> None:
    """Remove inputs and outputs that are not tensors, such as None and numbers, from a program.

    Export has fixed the values of such inputs in the program.
    """
    signature, output = program.graph_signature, program.graph.output_node()
    pairs = list(zip(output.args[0], signature.output_specs, strict=True))
    pairs = [pair for pair in pairs if not isinstance(pair[1].arg, ConstantArgument)]
    output.args = (tuple(value for value, _ in pairs),)
    program._graph_signature = replace(
        signature,
        input_specs=[spec for spec in signature.input_specs if not isinstance(spec.arg, ConstantArgument)],
        output_specs=[spec for _, spec in pairs],
    )


def take_buffers(program: ExportedProgram) -> list[Buffer]:
    """Turn the buffers that a program changes into inputs, and their next values into outputs.

    The next values are the program's first outputs, in the order of what is returned.

    Args:
        program: A program without operators that change their arguments, as run_decompositions returns it; it
            is modified.
    """
    signature = program.graph_signature
    values = dict(program.named_buffers())
    changed = [spec.target for spec in signature.output_specs if spec.kind is OutputKind.BUFFER_MUTATION]
    inputs = {spec.target: spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.BUFFER}
    program._graph_signature = replace(
        signature,
        input_specs=[
            InputSpec(InputKind.USER_INPUT, spec.arg, None)
            if spec.kind is InputKind.BUFFER and spec.target in changed
            else spec
            for spec in signature.input_specs
        ],
        output_specs=[
            OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None)
            if spec.kind is OutputKind.BUFFER_MUTATION
            else spec
            for spec in signature.output_specs
        ],
    )
    # Buffers that are not persistent are not in state_dict.
    program._constants = {name: value for name, value in program.constants.items() if name not in changed}
    return [Buffer(name, inputs[name], values[name]) for name in changed]


def put_buffers(module: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Replace buffers of a module, because the exported program may share their tensors."""
    for name, value in values.items():
        owner, _, last = name.rpartition(".")
        setattr(module.get_submodule(owner), last, value)
