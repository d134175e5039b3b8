# SPDX-License-Identifier: Apache-2.0
"""A float ONNX model and calibration samples in, an `ImportedModel` in QDQ form out."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from arm_ext.errors import UsageError
from arm_ext.frontends.imported import ImportedModel
from arm_ext.frontends.load import import_model, is_tflite
from arm_ext.frontends.onnx.importer import import_onnx, read_onnx
from arm_ext.frontends.onnx.program import name_nodes
from arm_ext.frontends.refuse import Shapes
from arm_ext.manifest import Calibration
from arm_ext.quant.samples import read_samples, split_samples
from arm_ext.quant.static import Method, quantize

if TYPE_CHECKING:
    from jax.export import Exported
    from torch import nn
    from torch.export import ExportedProgram


def import_given(
    model: "str | Path | onnx.ModelProto | ExportedProgram | nn.Module | Exported",
    shapes: Shapes | None = None,
    states: Mapping[str, str] | None = None,
    samples: str | Path | None = None,
    method: Method = "minmax",
) -> tuple[ImportedModel, Calibration | None]:
    """Import a model as it is, by `import_model`, or quantised by samples, by `import_quantized`."""
    if samples is None:
        return import_model(model, shapes, states), None
    if not isinstance(model, onnx.ModelProto | str | Path):
        raise UsageError(
            f"samples quantise ONNX models alone, and this is a {type(model).__name__}; "
            "a module of PyTorch is quantised by torchao's PT2E before its export"
        )
    return import_quantized(model, Path(samples), method, shapes)


def import_quantized(
    model: onnx.ModelProto | str | Path, samples: Path, method: Method, shapes: Shapes | None = None
) -> tuple[ImportedModel, Calibration]:
    """Quantise and import a float model.

    Args:
        model: A path, or a loaded model.
        samples: .npz; see `split_samples`.
        method: How an activation's range follows from the samples.
        shapes: Input name → static shape, for inputs with dynamic dimensions.

    Returns:
        The model under the name and hash of the float one, and how it was calibrated. `nodes` has the float model's
        nodes in their order, those that quantisation dropped among them, and then what it added.

    Raises:
        UsageError: As `quantize` and `read_samples`; the model is TFLite.
        ModelError: As `quantize` and `import_onnx`.
    """
    if isinstance(model, str | Path) and Path(model).is_file() and is_tflite(Path(model)):
        raise UsageError(
            f"{model}: --quantize takes ONNX, and this is TFLite; leave --quantize out if it is quantised, else "
            "quantise it where it was converted, or export the network to ONNX"
        )
    arrays = read_samples(samples)
    imported = import_onnx(quantize(model, arrays, method=method, shapes=shapes))
    source, name, digest = read_onnx(model)
    name_nodes(source.graph)
    nodes = {node.name: node.op_type for node in source.graph.node}
    calibration = Calibration(
        method=method,
        samples=len(split_samples(arrays, imported.inputs)),
        sha256=hashlib.sha256(samples.read_bytes()).hexdigest(),
    )
    return replace(imported, name=name, sha256=digest, nodes=nodes | imported.nodes), calibration
