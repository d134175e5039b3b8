# SPDX-License-Identifier: Apache-2.0
"""Messages for models that cannot be imported, and for shapes that do not fit a model."""

import re
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from arm_ext.common.errors import ArmExtError, ModelError, UsageError
from arm_ext.common.faults import is_out_of_memory, out_of_memory

Shapes = dict[str, tuple[int, ...]]

_NONE: Mapping[str, str] = MappingProxyType({})


class DynamicInputsError(UsageError):
    """Raised if inputs have dynamic dimensions and no shape is given.

    Attributes:
        dynamic: Input → its dimensions, as for `refuse_dynamic_inputs`.
    """

    def __init__(self, message: str, dynamic: Mapping[str, Sequence[int | str]]) -> None:
        """Store the message and the dynamic inputs that it names."""
        super().__init__(message)
        self.dynamic = dynamic


# Parts of TVM's messages when it needs a shape that is computed at run time, and the C++ function that fails.
_NO_SHAPE = ("to be Shape. However", "the given input has no shape", "shape_ty->values.has_value()")
_TO_SHAPE = "ReturnTensorToShapeType"

# The folder of this package's converters.
_OURS = Path(__file__).parents[1]

_SHAPE_FORM = re.compile(r"\{[0-9,]+\}|[A-Za-z_]\w*<=[0-9]+")
"""Sizes that only the run decides between, as --shape takes them."""

# Maximum number of names in a message, so that it fits on a screen.
_SHOWN_NODES = 3


def refuse_operators(
    missing: Mapping[str, list[str]], advice: Mapping[str, str] = _NONE, hint: str = ""
) -> None:
    """Raise ModelError for a model's unsupported operators, if there are any.

    Args:
        missing: Operator → names of the nodes that cannot be compiled.
        advice: Operator → what to write instead.
        hint: Further advice, a sentence.

    Raises:
        ModelError: Lists all of them, with counts and node names.
    """
    if not missing:
        return
    lines = []
    for op, nodes in sorted(missing.items()):
        more = f" and {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else ""
        lines.append(f"  {op} ({len(nodes)}x): {', '.join(nodes[:_SHOWN_NODES])}{more}")
        lines += [f"      {advice[op]}"] if op in advice else []
    raise ModelError(
        f"{len(missing)} operator(s) cannot be compiled:\n"
        + "\n".join(lines)
        + "\nReplace them in the model, split the model around them, or add converters of your own by --plugin. "
        f"{hint}".rstrip()
    )


def not_imported(node: str, operators: Mapping[str, str], err: Exception | str) -> ModelError:
    """Return the error for a node at which one of TVM's importers fails.

    Args:
        node: Name of the node.
        operators: Source node → operator.
        err: What the importer raised, or why it did.
    """
    reason = err if isinstance(err, str) else failure_of(err)
    return ModelError(f"{operators.get(node, '?')} node '{node}' cannot be imported: {reason}")


def failure_of(err: Exception) -> str:
    """Return why a converter failed: this package's own message, or a quotation of TVM's message."""
    reason = reason_of(err)
    frames = traceback.extract_tb(err.__traceback__)
    if any(words in reason for words in _NO_SHAPE) or any(_TO_SHAPE in frame.name for frame in frames):
        return "the shape of its result depends on values that only the run knows: make them constants of the model"
    # The innermost frame in this package or in TVM decides: exceptions of numpy are the fault of its caller's
    # arguments.
    called = (Path(frame.filename) for frame in reversed(frames))
    known = next((path for path in called if _OURS in path.parents or "tvm" in path.parts), None)
    # An out-of-bounds index is a fault of the model, whichever code raises the error.
    is_ours = isinstance(err, ArmExtError | IndexError) or (known is not None and _OURS in known.parents)
    return reason if is_ours else f"it has a form that is not supported; TVM's importer says: {reason}"


def reason_of(err: BaseException, line: int = -1) -> str:
    """Return one line of an exception's message, by default the last; the exception's type if there is no message.

    Raises:
        EnvError: The exception says that memory is exhausted, which no reason of a model is.
    """
    if is_out_of_memory(err):
        raise out_of_memory() from err
    lines = str(err).strip().splitlines()
    return lines[line] if lines else type(err).__name__


def refuse_unknown_inputs(names: Iterable[str], inputs: Collection[str], option: str = "--shape") -> None:
    """Refuse names of inputs that the model does not have.

    Args:
        names: The names that an option gives.
        inputs: Names of the model's inputs.
        option: The option, for the message.

    Raises:
        UsageError: There are unknown names; the message lists them and the model's inputs.
    """
    if unknown := sorted(set(names) - set(inputs)):
        raise UsageError(
            f"{option} names no input: {', '.join(unknown)}. The inputs are: {', '.join(inputs)}"
        )


def refuse_dynamic_inputs(
    dynamic: Mapping[str, Sequence[int | str]], fit: Callable[[Shapes], bool] = lambda shapes: True
) -> None:
    """Refuse inputs without a static shape; the message has a line for each, with an example that fits the model.

    Args:
        dynamic: Input → its dimensions, those that are not known as text, such as "n" or "n<=16"; none where not even
            their number is.
        fit: Whether the model takes inputs of these shapes.

    Raises:
        DynamicInputsError: Lists them.
    """
    if not dynamic:
        return
    examples = {name: example_shape(dims) for name, dims in dynamic.items()}
    shown = fit(examples)
    lines = []
    for name, dims in dynamic.items():
        line = f"  {name}: [{','.join(map(str, dims))}]"
        if any(_SHAPE_FORM.fullmatch(str(dim)) for dim in dims):
            line += f"    e.g. --shape '{name}={','.join(map(str, dims))}'"
        elif shown:
            line += f"    e.g. --shape {name}={','.join(map(str, examples[name]))}"
        lines.append(line)
    lines.append("`arm-ext init MODEL` keeps them in a file beside the model, so that they are given once")
    raise DynamicInputsError(
        "\n".join(["these inputs have dynamic dimensions; give each a shape:", *lines]), dynamic
    )


def example_shape(dims: Sequence[int | str]) -> tuple[int, ...]:
    """Return a shape that an input with these dimensions may have; unknown ones are text, and none are of any rank."""
    return tuple(1 if isinstance(dim, str) else dim for dim in dims) or (1, 3, 224, 224)


def misfit(name: str, shape: Sequence[int], model: str) -> UsageError:
    """Return the error for a --shape that does not match an input, whose declared shape is `model`, such as "?,3"."""
    return UsageError(f"--shape {name}={','.join(map(str, shape))} does not fit the model's [{model}]")
