# SPDX-License-Identifier: Apache-2.0
"""What a model's file leaves open, and a person knows: shapes, inputs that are constants, and states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy.typing as npt

from arm_ext.api.plugins import with_plugins
from arm_ext.common.errors import UsageError
from arm_ext.common.model_description import description_of
from arm_ext.common.outputs import checked_file, write_file
from arm_ext.frontends.common.refuse import DynamicInputsError
from arm_ext.frontends.load import import_model, is_onnx, prepared
from arm_ext.shapes.given import Given, buckets_of


@dataclass(frozen=True)
class OpenPoints:
    """What a model leaves open.

    Attributes:
        shapes: Input with dynamic dimensions → its dimensions, the unknown ones as text. Where there are such inputs,
            the other points are not known yet.
        constants: Integer inputs of one element, mostly settings such as a sampling rate, which `value` makes
            constants: each as "name int64[1]".
        states: Input → the output of its shape and type, of several the one of the most similar name; an input is a
            state if that output is its next value.
    """

    shapes: Mapping[str, Sequence[int | str]]
    constants: Mapping[str, str]
    states: Mapping[str, str]


@with_plugins
def open_points(
    model: Path,
    shapes: Given,
    values: Mapping[str, npt.ArrayLike],
    *,
    trust: bool = False,
    plugins: Sequence[str | Path] = (),
) -> OpenPoints:
    """Return what a model leaves open.

    Args:
        model: A model file.
        shapes: Input name → shape, as far as they are known; of several, the first stands for all.
        values: Input name → its numbers, of inputs that are constants.
        trust: Whether a .pt2 file may run code of its own when it is opened.
        plugins: Python files with converters that the model needs.

    Raises:
        UsageError, ModelError, EnvError: As `import_model`, but for shapes that are missing.
    """
    try:
        imported = import_model(prepared(model, values, trust=trust), buckets_of(shapes)[0].shapes)
    except DynamicInputsError as error:
        return OpenPoints(error.dynamic, {}, {})
    constants = {
        spec.name: spec.describe()
        for spec in imported.inputs
        if is_onnx(model) and spec.shape in ((), (1,)) and spec.dtype in ("int32", "int64", "bool")
    }
    kept = {state.input for state in imported.states}
    states: dict[str, str] = {}
    for spec in imported.inputs:
        alike = [out.name for out in imported.outputs if (out.shape, out.dtype) == (spec.shape, spec.dtype)]
        next_value = _nearest(spec.name, alike)
        if next_value and len(imported.inputs) > 1 and spec.name not in {*kept, *constants}:
            states[spec.name] = next_value
    return OpenPoints({}, constants, states)


def _nearest(name: str, alike: Sequence[str]) -> str:
    """Return the only output, or the only one of several that begins as long as `name` does: hN of h0; "" if none."""
    if len(alike) == 1:
        return alike[0]
    common = [
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False)))
        for other in alike
    ]
    longest = max(common, default=0)
    return alike[common.index(longest)] if longest and common.count(longest) == 1 else ""


def refuse_existing(model: Path, *, force: bool) -> None:
    """Refuse to replace a description, unless `force` is given.

    Raises:
        UsageError: There is one, or none can be written.
    """
    if model.name and checked_file(description_of(model), "init").exists() and not force:
        raise UsageError(f"{description_of(model)} exists; --force replaces it")


def write_description(model: Path, options: Mapping[str, Sequence[str]]) -> Path:
    """Write the description of a model beside it, and return its path.

    Args:
        model: The model file.
        options: Option of the command line → its values, such as {"shape": ["x=1,64"]}.

    Raises:
        UsageError: None can be written.
    """
    import yaml

    path = description_of(model)
    text = "# Options that each command of arm-ext takes for this model.\n"
    document: dict[str, Any] = {name: list(values) for name, values in options.items() if values}
    write_file(path, (text + yaml.safe_dump(document, sort_keys=False)).encode(), "init")
    return path
