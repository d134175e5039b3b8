# SPDX-License-Identifier: Apache-2.0
"""torch itself as the reference for an exported program."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy.typing as npt
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils._python_dispatch import TorchDispatchMode

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.child_process import DiedError, call_apart
from arm_ext.frontends.torch.names import source_names
from arm_ext.frontends.torch.state import Buffer, put_buffers

Array = npt.NDArray[Any]
Result = TypeVar("Result")

Replaced = Callable[[str, str], Array | None]
"""Names of a node and of one that it reads → value to read in its place; None to read its own."""

# Errors that torch's operators raise.
_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, ZeroDivisionError)

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

    def run() -> list[Array]:
        with torch.no_grad(), _checked_divisions(program):
            args, kwargs = torch.utils._pytree.tree_unflatten(_leaves(program, values), spec)
            module = program.module()
            put_buffers(module, held)
            result = module(*args, **kwargs)
        leaves = [*held.values(), *torch.utils._pytree.tree_leaves(result)]
        return [leaf.detach().numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]

    try:
        return _apart(run), runtime
    except DiedError as err:
        return [], f"{runtime} crashes when it runs the model: {err}"
    except _REFUSALS as err:
        return [], f"{runtime} cannot run it: {str(err).strip().splitlines()[0]}"


def one_thread() -> None:
    """Let torch compute on one thread, in a child process: a fork lacks OpenMP's other threads."""
    torch.set_num_threads(1)


def _apart(function: Callable[[], Result]) -> Result:
    """Return a function's result, computed in a child process."""

    def alone() -> Result:
        one_thread()
        return function()

    return call_apart(alone, "torch")


class NodeValues:
    """Runs an exported program node by node, to read and replace nodes' values; a branch or loop counts as one node.

    Buffers that the program changes are inputs, and their next values are results, so that no run changes the program.
    """

    def __init__(self, program: ExportedProgram, name: str, states: Mapping[str, str] | None = None) -> None:
        """Prepare to run a program in torch.

        Args:
            program: The exported program.
            name: Name of its model, for messages.
            states: Names of the buffers that it changes, each with the name of its next value.
        """
        self.inputs = [arg.name for arg in _user_inputs(program) if not isinstance(arg, ConstantArgument)]
        """Names of the tensors that its forward takes, in their order."""
        self.program, self._name = program, name
        self.names = source_names(program)
        """Nodes that call operators → their names for people."""
        held, signature, states = (
            {**program.state_dict, **program.constants},
            program.graph_signature,
            states or {},
        )
        known = {spec.target: spec.arg.name for spec in signature.input_specs if spec.target in held}
        changed = {spec.target: spec.arg.name for spec in signature.output_specs if spec.target in states}
        self.states: dict[str, str] = {name: known[name] for name in states if name in known}
        """Buffer that the program changes → its placeholder."""
        # If the program is not functionalised, operators change the buffer in place, so its placeholder holds the
        # next value.
        self._next = {states[name]: changed.get(name, at) for name, at in self.states.items()}
        self.constants: dict[str, torch.Tensor] = {
            placeholder: held[name] for name, placeholder in known.items() if name not in self.states
        }
        """Weights and other constants by the names of their placeholders."""

    def __call__(
        self,
        inputs: Mapping[str, Array],
        wanted: Collection[str],
        replaced: Replaced = lambda reader, name: None,
    ) -> dict[str, Array]:
        """Return the values of nodes by name, and of the states after the run.

        Args:
            inputs: Values of the program's inputs, and of its states, by their names.
            wanted: Names of the nodes.
            replaced: Returns what nodes read in the place of others.

        Raises:
            ModelError: torch cannot run the program.
        """
        given: dict[str, Any] = {
            self.states.get(name, name): torch.from_numpy(value.copy()) for name, value in inputs.items()
        }
        others = [arg for arg in _user_inputs(self.program) if isinstance(arg, ConstantArgument)]
        given |= {arg.name: arg.value for arg in others}
        try:
            return _apart(lambda: self._run(given, wanted, replaced))
        except (*_REFUSALS, DiedError) as err:
            told = str(err).strip().splitlines()[0]
            raise ModelError(f"{self._name}: torch {torch.__version__} cannot run it: {told}") from err

    def _run(self, given: Mapping[str, Any], wanted: Collection[str], replaced: Replaced) -> dict[str, Array]:
        values: dict[torch.fx.Node, Any] = {}
        found: dict[str, Array] = {}
        with torch.no_grad(), _checked_divisions(self.program):
            for node in self.program.graph.nodes:
                if node.op == "output":
                    break
                values[node] = self._value(node, values, given, replaced)
                # Copied at once, since a later operator may change the tensor in place.
                if node.name in wanted:
                    found[node.name] = values[node].detach().numpy().copy()
        by_name = {node.name: value for node, value in values.items()}
        return found | {state: by_name[at].detach().numpy().copy() for state, at in self._next.items()}

    def _value(
        self,
        node: torch.fx.Node,
        values: Mapping[torch.fx.Node, Any],
        given: Mapping[str, Any],
        replaced: Replaced,
    ) -> Any:
        def read(other: torch.fx.Node) -> Any:
            instead = replaced(node.name, other.name)
            return values[other] if instead is None else torch.from_numpy(instead.copy())

        if node.op == "placeholder":
            return self.constants.get(node.name, given.get(node.name))
        if node.op == "get_attr":
            return getattr(self.program.graph_module, str(node.target))
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), read)
        assert callable(node.target)
        return node.target(*args, **kwargs)


def _checked_divisions(program: ExportedProgram) -> AbstractContextManager[Any]:
    return _Divisions() if _truncates(program) else nullcontext()  # type: ignore[no-untyped-call]


def _truncates(program: ExportedProgram) -> bool:
    """Whether a program has a truncating division; control flow cannot run under the dispatch mode `_Divisions`."""
    graphs = [module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    return any(node.target in _TRUNCATING for module in graphs for node in module.graph.nodes)


class _Divisions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that raises an error at truncating integer divisions at which torch would end the process."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in _TRUNCATING and kwargs.get("rounding_mode") == "trunc":
            a, b = (torch.as_tensor(value) for value in args[:2])
            if not (a.is_floating_point() or b.is_floating_point()):
                least = torch.iinfo(torch.result_type(a, b)).min
                if bool(((b == 0) | ((a == least) & (b == -1))).any()):
                    raise ZeroDivisionError("it divides an integer by 0, or the smallest integer by -1")
        return function(*args, **kwargs)


def _leaves(program: ExportedProgram, values: Mapping[str, torch.Tensor]) -> list[Any]:
    """Return a program's arguments in order: the given tensors, and the exported values of all other arguments."""
    given = _user_inputs(program)
    return [arg.value if isinstance(arg, ConstantArgument) else values[arg.name] for arg in given]


def _user_inputs(program: ExportedProgram) -> list[Any]:
    """Return the arguments of the program's forward, tensors and others."""
    return [spec.arg for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
