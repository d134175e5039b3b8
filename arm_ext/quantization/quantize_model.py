# SPDX-License-Identifier: Apache-2.0
"""Import of a float model that calibration samples quantise to QDQ form; models of other formats become ONNX first."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy.typing as npt
import onnx

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.common.state import with_states
from arm_ext.frontends.load import TrustedFile, import_model, is_onnx
from arm_ext.frontends.onnx.export import to_onnx
from arm_ext.frontends.onnx.importer import import_onnx, read_onnx
from arm_ext.frontends.onnx.program import name_nodes
from arm_ext.frontends.onnx.reference import reference
from arm_ext.frontends.onnx.weights import serialise
from arm_ext.package.manifest import Calibration, Method
from arm_ext.quantization.samples import read_calibration
from arm_ext.quantization.steps import OnnxStates

if TYPE_CHECKING:
    from jax.export import Exported
    from torch import nn
    from torch.export import ExportedProgram

    from arm_ext.quantization.static import Quantizer

    Model: TypeAlias = str | Path | TrustedFile | onnx.ModelProto | ExportedProgram | nn.Module | Exported


class QuantizingImporter:
    """Imports a model for several sets of shapes, unchanged or quantised by samples."""

    def __init__(
        self,
        model: "Model",
        choices: Sequence[Shapes] = ({},),
        states: Mapping[str, str] | None = None,
        initial: Mapping[str, npt.NDArray[Any]] | None = None,
        samples: str | Path | None = None,
        method: Method = "minmax",
    ) -> None:
        """Read the samples, if there are any.

        Args:
            model: As for `import_model`; with samples a float model.
            choices: Sets of shapes that the model will be imported for; samples are of the first set that they fit.
            states: As for `import_model`.
            initial: What states begin with, for the samples, as for `with_states`.
            samples: .npz; see `split_samples`.
            method: How an activation's range follows from the samples.

        Raises:
            UsageError: As `Quantizer`, `read_npz` and `float_onnx`.
            ModelError: As `Quantizer` and `float_onnx`.
        """
        self._model, self._states = model, states or {}
        self._quantizer: Quantizer | None = None
        if samples is not None:
            from arm_ext.quantization import static  # not imported above: it loads onnxruntime's quantiser

            path, steps = Path(samples), OnnxStates(self._states, initial or {})
            arrays = read_calibration(path)
            self._float, self._given = float_onnx(model, choices)
            self._quantizer = static.Quantizer(self._float, arrays, method, choices, steps)
            self._method, self._sha256 = method, hashlib.sha256(path.read_bytes()).hexdigest()

    @cached_property
    def calibration(self) -> Calibration | None:
        """Return how the model was quantised, with its distance from the float model; None if it was not quantised."""
        if self._quantizer is None:
            return None
        return self._quantizer.calibration(self._method, self._sha256)

    def __call__(self, shapes: Shapes) -> ImportedModel:
        """Return the model for these shapes.

        One that was quantised has the name and hash of the float one. Its `nodes` has the float model's nodes in their
        order, those that quantisation dropped among them, and then what it added.

        Raises:
            UsageError, ModelError, EnvError: As `import_model` and `Quantizer`.
        """
        if self._quantizer is None:
            return import_model(self._model, shapes, self._states)
        imported = import_onnx(self._quantizer.quantized(shapes))
        source, name, digest = read_onnx(self._float)
        name_nodes(source.graph)
        nodes = {node.name: node.op_type for node in source.graph.node}
        if self._given is not None:
            name, digest, nodes = self._given.name, self._given.sha256, nodes | self._given.nodes
            imported = replace(imported, format=self._given.format)
        exact = partial(reference, serialise(self._quantizer.float_model(shapes)))
        quantized = replace(
            imported, name=name, sha256=digest, nodes=nodes | imported.nodes, float_reference=exact
        )
        initial = self._quantizer.defaults
        return with_states(quantized, {state: self._states[state] for state in initial}, initial)


def import_given(
    model: "Model", shapes: Shapes | None = None, samples: str | Path | None = None, method: Method = "minmax"
) -> ImportedModel:
    """Import a model for one set of shapes; a shortcut for `QuantizingImporter`."""
    return QuantizingImporter(model, (shapes or {},), samples=samples, method=method)(shapes or {})


def float_onnx(
    model: "Model", choices: Sequence[Shapes]
) -> tuple[onnx.ModelProto | str | Path, ImportedModel | None]:
    """Return a float model as ONNX, and as it was imported if it is of another format.

    Args:
        model: As for `import_model`.
        choices: Sets of shapes that it is quantised for; one if it is not ONNX.

    Raises:
        UsageError: It is not ONNX, and is quantised already, keeps states, or has several sets of shapes; as
            `import_model`.
        ModelError: As `import_model` and `to_onnx`.
    """
    if isinstance(model, onnx.ModelProto):
        return model, None
    if isinstance(model, str | Path) and (not Path(model).is_file() or is_onnx(Path(model))):
        return model, None
    if len(choices) > 1:
        raise UsageError("a model that is not ONNX is quantised for one set of shapes; compile it for each")
    imported = import_model(model, choices[0])
    if imported.quantized:
        raise UsageError(
            f"{imported.name}: is quantised already; leave --quantize out, or compile it unchanged"
        )
    if imported.states:
        raise UsageError(
            f"{imported.name}: keeps states ({imported.states[0].input}), with which only ONNX models are quantised"
        )
    return to_onnx(imported), imported
