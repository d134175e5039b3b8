# SPDX-License-Identifier: Apache-2.0
"""torch itself as the reference for an exported program."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy.typing as npt
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils._python_dispatch import TorchDispatchMode

from arm_ext.frontends.torch.state import Buffer, put_buffers

_TRUNCATING = (torch.ops.aten.div.Tensor_mode, torch.ops.aten.div.Scalar_mode)


def reference(
    program: ExportedProgram,
    names: Sequence[str],
    inputs: Sequence[npt.NDArray[Any]],
    buffers: Sequence[Buffer] = (),
) -> tuple[list[npt.NDArray[Any]], str]:
    """Return a program's outputs, and torch's name and version.

    Args:
        program: The exported program.
        names: Names of the inputs in the program's order: its own inputs, then buffers.
        inputs: Values of these inputs, in that order.
        buffers: Buffers that the program changes; their next values are the first outputs.
    """
    runtime = f"torch {torch.__version__}"
    values = {name: torch.from_numpy(x.copy()) for name, x in zip(names, inputs, strict=True)}
    held = {buffer.name: values.pop(buffer.name) for buffer in buffers}
    spec = program.call_spec.in_spec
    try:
        with torch.no_grad(), _Divisions() if _truncates(program) else nullcontext():  # type: ignore[no-untyped-call]
            args, kwargs = torch.utils._pytree.tree_unflatten(_leaves(program, values), spec)
            module = program.module()
            put_buffers(module, held)
            result = module(*args, **kwargs)
    except (RuntimeError, ValueError, TypeError, ZeroDivisionError) as err:
        return [], f"{runtime} cannot run it: {str(err).strip().splitlines()[0]}"
    leaves = [*held.values(), *torch.utils._pytree.tree_leaves(result)]
    return [leaf.detach().numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)], runtime


def _truncates(program: ExportedProgram) -> bool:
    """Whether a program divides and truncates; control flow cannot be run while `_Divisions` looks on."""
    graphs = [module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    return any(node.target in _TRUNCATING for module in graphs for node in module.graph.nodes)


class _Divisions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises where torch would end the process: at truncating divisions of integers that have no quotient."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in _TRUNCATING and kwargs.get("rounding_mode") == "trunc":
            a, b = (torch.as_tensor(value) for value in args[:2])
            if not (a.is_floating_point() or b.is_floating_point()):
                least = torch.iinfo(torch.result_type(a, b)).min
                if bool(((b == 0) | ((a == least) & (b == -1))).any()):
                    raise ZeroDivisionError("it divides an integer by 0, or the least one by -1")
        return function(*args, **kwargs)


def _leaves(program: ExportedProgram, values: Mapping[str, torch.Tensor]) -> list[Any]:
    """Return a program's arguments in order: the given tensors, and the exported values of all other arguments."""
    given = [spec.arg for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    return [arg.value if isinstance(arg, ConstantArgument) else values[arg.name] for arg in given]
