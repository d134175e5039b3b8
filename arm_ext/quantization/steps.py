# SPDX-License-Identifier: Apache-2.0
"""Calibration of a model with states: samples are consecutive steps, and each step starts from the previous states."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.onnx.importer import input_specs
from arm_ext.frontends.onnx.reference import IsolatedSession, open_file

Array = npt.NDArray[Any]
Feed = dict[str, Array]


@dataclass(frozen=True)
class OnnxStates:
    """States of an ONNX model: pairs of inputs and outputs, and initial values.

    Attributes:
        pairs: Name of an input → the output that is its next value.
        initial: Name of an input → its value in the first step; by default the model's initial value, or
            zeros.
    """

    pairs: Mapping[str, str] = field(default_factory=dict)
    initial: Mapping[str, Array] = field(default_factory=dict)

    def follow(self, path: Path, defaults: Mapping[str, Array], feeds: Iterable[Feed]) -> Iterator[Feed]:
        """Yield the samples, each with the states from which its step starts.

        States that do not fit the model are left at zeros: the import refuses them later.

        Args:
            path: The model.
            defaults: The model's default values of states.
            feeds: Samples; states that they hold are theirs.
        """
        proto = onnx.load(path, load_external_data=False)
        specs = {spec.name: spec for spec in input_specs(proto.graph)}
        known = {value.name for value in proto.graph.output}
        session: IsolatedSession | None = None
        states: Feed = {}
        for feed in feeds:
            open_states = [name for name in self.pairs if name in specs and name not in feed]
            found = {
                name: states.get(name, _first(specs[name], {**defaults, **self.initial}))
                for name in open_states
            }
            yield feed | found
            followed = {name: self.pairs[name] for name in open_states if self.pairs[name] in known}
            if not followed:
                continue
            session = session or open_file(path)
            values = session.run(list(followed.values()), feed | found)
            results = dict(zip(followed, values, strict=True))
            states = {name: value for name, value in results.items() if not specs[name].check(value)}


def _first(spec: TensorSpec, initial: Mapping[str, Array]) -> Array:
    given = initial.get(spec.name)
    return np.zeros(spec.shape, spec.dtype) if given is None or spec.check(given) else given
