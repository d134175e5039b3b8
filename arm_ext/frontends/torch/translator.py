# SPDX-License-Identifier: Apache-2.0
"""TVM's importer of exported programs, extended to record source names and all failing nodes."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import tvm
from torch.export import ExportedProgram
from tvm import relax
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.control_flow import Program
from arm_ext.frontends.common.custom import CustomOp, convert_custom, converter_for
from arm_ext.frontends.common.naming import name_calls
from arm_ext.frontends.common.refuse import failure_of, reason_of, refuse_operators
from arm_ext.frontends.torch.converters import CONVERTERS, arguments_of
from arm_ext.frontends.torch.decompositions import DECOMPOSITIONS
from arm_ext.frontends.torch.names import source_of
from arm_ext.frontends.torch.promote import dtype_name
from relay_passes.ir.sources import bindings_of, name_bindings

_MOST_TRANSPOSED = 2  # numbers of spatial axes for which TVM has a transposed convolution

NOT_COMPILED = ("masked_select.default",)
"""Operators that upstream converts, to a shape that depends on the data."""


def operator_of(node: torch.fx.Node) -> str:
    """Return the node's operator as torch prints it."""
    return str(node.target) if not callable(node.target) or "." in str(node.target) else node.target.__name__


_COMPLEX = (
    "no complex numbers can be compiled: compute real and imaginary parts in tensors of their own (an FFT of fixed "
    "length is two products with matrices of cosines and sines), or run it before or after the package"
)


class Translator(ExportedProgramImporter):  # type: ignore[misc]
    """Translates one exported program to Relax.

    Attributes:
        exported: The exported program.
        last_binding: The variable of a node's last binding → its source node.
        program: The functions so far.
    """

    convert_map: dict[str, Any]

    def __init__(self, program: ExportedProgram, names: Mapping[str, str]) -> None:
        """Prepare for a program that is functionalised: no operator changes its arguments.

        Args:
            program: The program, decomposed.
            names: Node of the program before that → its name, as `source_names` returns it.
        """
        super().__init__()
        self._names = names
        self.last_binding: dict[relax.Var, str] = {}
        self.exported = program
        self.program = Program(self._named)
        self._deciding = ""
        self._weights: dict[relax.Var, torch.Tensor] = {}
        self._upstream = dict(self.convert_map)
        self._failed: list[str] = []
        self.update_convert_map({name: self._of(convert) for name, convert in CONVERTERS.items()})
        custom = {node.target.__name__ for node in _all_calls(program.graph_module) if _is_custom(node)}
        self.update_convert_map({name: self._custom_or(self.convert_map.get(name)) for name in custom})
        for name in NOT_COMPILED:
            self.convert_map.pop(name, None)
        self.convert_map = {name: self._telling(convert) for name, convert in self.convert_map.items()}

    def translate(self) -> tvm.IRModule:
        """Return the program's main graph as a module; its branches and loops are functions in `self.program`.

        Raises:
            ModelError: Operators without a converter, or nodes at which one fails: all of them.
        """
        try:
            mod = self.from_exported_program(self.exported, False, False, False, None)
        except (ModelError, UsageError):
            raise
        except Exception as err:
            self._failed.append(f"the program cannot be imported: {reason_of(err)}")
            raise ModelError("\n".join(self._failed)) from err
        if self._failed:
            raise ModelError("\n".join(self._failed))
        mod["main"] = name_calls(mod["main"], self.last_binding)
        return mod

    def by_upstream(self, node: torch.fx.Node) -> Any:
        """Convert a node by TVM's converter."""
        assert callable(node.target)
        return self._upstream[node.target.__name__](node)

    def create_input_vars(self, program: ExportedProgram) -> Any:
        """Return TVM's variables for inputs and weights, and record which are weights."""
        held, *others = super().create_input_vars(program)
        tensors = {**program.state_dict, **program.constants}
        targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
        self._weights = {
            var: tensors[targets[name]] for name, var in held.items() if targets[name] in tensors
        }
        return held, *others

    def weight(self, value: relax.Expr) -> relax.Expr:
        """Return the constant that a weight's variable stands for; return other values unchanged."""
        held = self._weights.get(value) if isinstance(value, relax.Var) else None
        return value if held is None else relax.const(self._convert_pytorch_tensor_to_tvm(held))

    def is_weight(self, name: str) -> bool:
        """Whether a placeholder is a parameter, a buffer that does not change, or a constant."""
        return any(var.name == name for var in self._weights)

    @contextmanager
    def deciding(self, node: torch.fx.Node) -> Iterator[str]:
        """Open the scope of a branch or loop; yield the name of the node in the main graph that contains it."""
        outer = self._deciding
        self._deciding = outer or self._source_of(node)
        try:
            yield self._deciding
        finally:
            self._deciding = outer

    def _named(self, func: relax.Function) -> relax.Function:
        return name_bindings(func, {binding.var: self._deciding for binding in bindings_of(func)})

    def _source_of(self, node: torch.fx.Node) -> str:
        return source_of(node, self._names)

    def _of(self, convert: Any) -> Any:
        return lambda node: convert(self, node)

    def _custom_or(self, other: Any) -> Any:
        """Return a converter that converts a plugin's operators by the plugin, and all other nodes by `other`."""

        def converted(node: torch.fx.Node) -> Any:
            if not _is_custom(node):
                return other(node)
            given = arguments_of(self, node)
            inputs = [value for value in given.values() if isinstance(value, relax.Expr)]
            others = {name: value for name, value in given.items() if not isinstance(value, relax.Expr)}
            op = CustomOp(operator_of(node), self._source_of(node), inputs, others, self.block_builder)
            known = node.meta.get("val")
            values = convert_custom(op, len(known) if isinstance(known, list | tuple) else 1)
            return values if isinstance(known, list | tuple) else values[0]

        return converted

    def _telling(self, convert: Any) -> Any:
        def converted(node: torch.fx.Node) -> Any:
            source = self._source_of(node)
            try:
                _check_convolution(node)
                value = self._without_data(node)
                value = convert(node) if value is None else value
                if isinstance(value, tvm.ir.Call):  # upstream did not bind the call, so it has no type
                    value = self.block_builder.emit(value)
                value = self._as_torch(node, self._results(node, value))
            except UsageError:  # raised by a plugin's converter
                raise
            except Exception as err:
                told = f"{operator_of(node)} node '{source}' cannot be imported: {failure_of(err)}"
                self._failed.append(told)
                value = self._stand_in(node, told, err)
            for part in value if isinstance(value, list | tuple) else [value]:
                if isinstance(part, relax.Var):
                    self.last_binding.setdefault(part, source)
            return value

        return converted

    def _without_data(self, node: torch.fx.Node) -> Any:
        """Return an operator's results as constants, if they or all operands have no elements; else None."""
        if not (isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten"):
            return None
        known = node.meta.get("val")
        results: list[Any] = list(known) if isinstance(known, list | tuple) else [known]
        given: list[Any] = [argument.meta.get("val") for argument in node.all_input_nodes]
        if not all(map(_is_static, (*results, *given))):
            return None
        if all(0 in value.shape for value in results):
            values = [torch.zeros(value.shape, dtype=value.dtype) for value in results]
        elif given and all(0 in value.shape for value in given):
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), _zeros)
            computed = node.target(*arguments[0], **arguments[1])
            values = list(computed) if isinstance(computed, list | tuple) else [computed]
        else:
            return None
        constants = [relax.const(self._convert_pytorch_tensor_to_tvm(value)) for value in values]
        return constants if isinstance(known, list | tuple) else constants[0]

    def _results(self, node: torch.fx.Node, value: Any) -> Any:
        """Return a value for each result of an operator for which TVM's importer returns only the first.

        Upstream returns the first for any of them. Results without elements are constants.

        Raises:
            ValueError: Another result is read.
        """
        known, ty = node.meta.get("val"), getattr(value, "ty", None)
        if not isinstance(known, list | tuple) or not isinstance(ty, relax.TensorType):
            return value
        read = {user.args[1] for user in node.users if user.target is operator.getitem}
        values = [value]
        for number, part in enumerate(known[1:], 1):
            is_empty = _is_static(part) and 0 in part.shape
            if number in read and not is_empty:
                raise ValueError(f"its result {number} is read, and only result 0 is supported")
            # A result that is not used has no value.
            dtype = dtype_name(part.dtype)
            values.append(relax.const(np.zeros(part.shape), dtype) if is_empty else None)
        return values

    def _as_torch(self, node: torch.fx.Node, value: Any) -> Any:
        """Convert each tensor that a node computes to the dtype that torch has for it.

        Raises:
            ValueError: A tensor has another shape than torch's, and so other values.
        """
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
            return value
        known = node.meta.get("val")
        if isinstance(known, list | tuple) and isinstance(value, list | tuple) and len(known) == len(value):
            return [self._typed(*pair) for pair in zip(known, value, strict=True)]
        return self._typed(known, value)

    def _typed(self, known: Any, value: Any) -> Any:
        ty = getattr(value, "ty", None)
        if not isinstance(known, torch.Tensor) or not isinstance(ty, relax.TensorType) or ty.shape is None:
            return value
        found, wanted = [*ty.shape], [*known.shape]
        is_static = all(isinstance(dim, int | tvm.tirx.IntImm) for dim in (*found, *wanted))
        if is_static and [int(dim) for dim in found] != wanted:
            raise ValueError(f"its result would be {found}, but PyTorch's is {wanted}")
        dtype = dtype_name(known.dtype)
        return value if str(ty.dtype) == dtype else self.block_builder.emit(relax.op.astype(value, dtype))

    def _stand_in(self, node: torch.fx.Node, told: str, err: Exception) -> Any:
        """Return zeros in place of a failed node's values, so that errors of later nodes are found, too."""

        def zeros(value: Any) -> relax.Expr:
            if not isinstance(value, torch.Tensor) or not all(isinstance(dim, int) for dim in value.shape):
                raise ModelError("\n".join(self._failed)) from err
            dtype = dtype_name(value.dtype)
            return self.block_builder.emit(relax.op.zeros(list(value.shape), dtype))

        value = node.meta.get("val")
        return [zeros(part) for part in value] if isinstance(value, list | tuple) else zeros(value)

    def _check_unsupported_func_type(self, nodes: Sequence[torch.fx.Node]) -> None:
        missing: dict[str, list[str]] = {}
        advice = {}
        for node in _all_calls(self.exported.graph_module):
            is_complex = any(map(holds_complex, (node, *node.all_input_nodes)))
            if is_complex or node.target.__name__ not in self.convert_map:
                missing.setdefault(operator_of(node), []).append(self._source_of(node))
            if is_complex:
                advice[operator_of(node)] = _COMPLEX
        refuse_operators(missing, advice)

    @staticmethod
    def _has_cond_op(nodes: Sequence[torch.fx.Node]) -> bool:
        # TVM checks whether `main` contains a branch; here, branches are calls of functions.
        return False


def _check_convolution(node: torch.fx.Node) -> None:
    """Refuse convolutions for which TVM's importer has no operator, or which it would compute in another dtype."""
    if node.target is not torch.ops.aten.convolution.default:
        return
    data = node.all_input_nodes[0].meta["val"]
    if not data.dtype.is_floating_point:
        raise ValueError(
            f"it is of {str(data.dtype).removeprefix('torch.')}, and only convolutions of floats are supported"
        )
    if node.args[6] and data.dim() > _MOST_TRANSPOSED + 2:
        raise ValueError(
            f"it is a transposed convolution over {data.dim() - 2} axes; at most {_MOST_TRANSPOSED} are supported"
        )


def _is_static(value: Any) -> bool:
    """Whether a value of a node is a tensor whose sizes are all known."""
    return isinstance(value, torch.Tensor) and all(isinstance(size, int) for size in value.shape)


def _zeros(node: torch.fx.Node) -> torch.Tensor:
    value = node.meta["val"]
    return torch.zeros(value.shape, dtype=value.dtype)


def _is_custom(node: torch.fx.Node) -> bool:
    return converter_for(operator_of(node)) is not None


def holds_complex(node: torch.fx.Node) -> bool:
    """Whether a node computes a complex tensor."""
    leaves = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in leaves)


def _all_calls(program: torch.fx.GraphModule) -> Iterator[Any]:
    """Yield the operator calls of a program, including those in branches."""
    for module in program.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")


def supported() -> list[str]:
    """Return the names of the ATen operators that can be imported, without overloads."""
    upstream = ExportedProgramImporter().convert_map
    own = {*CONVERTERS, *(operator.__name__ for operator in DECOMPOSITIONS)}
    names = {name.partition(".")[0] for name in {*upstream, *own} - {*NOT_COMPILED}}
    return sorted(
        name for name in names if not name.endswith("_")
    )  # without those that change their argument
