# SPDX-License-Identifier: Apache-2.0
"""The table of standard ONNX operators that are replaced before the import because upstream's importer lacks them.

A node is replaced when the shapes around it are known, and what replaces it may be replaced again.
"""

from collections.abc import Container

import numpy as np
import onnx
from onnx import ModelProto

from arm_ext.frontends.onnx import (
    classical,
    contrib,
    control,
    elementwise,
    older_opsets,
    quantized,
    rearrange,
    windows,
)
from arm_ext.frontends.onnx.converters import declare_custom
from arm_ext.frontends.onnx.expansion import Expand, Expansion
from arm_ext.frontends.onnx.functions import inline
from arm_ext.frontends.onnx.recurrent import recurrent
from arm_ext.frontends.onnx.resize import resize, upsample
from arm_ext.frontends.onnx.roi_align import roi_align
from arm_ext.frontends.onnx.shapes import fold_shapes

# Operators that onnx itself defines as functions of other operators.
_DEFINED = (
    "Attention",
    "Bernoulli",
    "CausalConvWithState",
    "CenterCropPad",
    "LinearAttention",
    "NegativeLogLikelihoodLoss",
    "RMSNormalization",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
    "SwiGLU",
    "Swish",
)

# Operators whose result is a table of numbers; their inputs are usually constants.
_TABLES = ("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")


def _inline_statistics(e: Expansion) -> None:
    """Inline LayerNormalization if mean or deviation are outputs, or if TVM has no loops for its dtype."""
    if sum(map(bool, e.node.output)) > 1 or e.dtype(e.node.input[0]) not in (np.float32, np.float16):
        inline(e)


def _slice(e: Expansion) -> None:
    """Replace Slice whose bounds are attributes (opsets before 10) or computed at run time."""
    (older_opsets.slice_by_attributes if len(e.node.input) == 1 else windows.slice_of_run)(e)


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

_STANDARD: dict[str, Expand] = {
    **dict.fromkeys((f"Reduce{kind}" for kind in _REDUCTIONS), elementwise.empty_reduction),
    **dict.fromkeys(_DEFINED, inline),
    **dict.fromkeys(_TABLES, elementwise.evaluate),
    "BatchNormalization": elementwise.batch_norm,
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), elementwise.many_inputs),
    "Col2Im": rearrange.col2im,
    "Compress": rearrange.compress,
    "Concat": rearrange.concat,
    **dict.fromkeys(("AveragePool", "Conv", "MaxPool"), rearrange.explicit_padding),
    "ConvTranspose": rearrange.transposed_to_shape,
    "Dropout": elementwise.dropout,
    "GRU": recurrent,
    "If": control.constant_if,
    "LSTM": recurrent,
    "LayerNormalization": _inline_statistics,
    "Loop": control.loop,
    "NonMaxSuppression": rearrange.bound_boxes,
    "Pad": rearrange.pad,
    "RNN": recurrent,
    "Range": windows.range_of_run,
    "Resize": resize,
    "RoiAlign": roi_align,
    **dict.fromkeys(("Squeeze", "Unsqueeze"), rearrange.axes_in_a_list),
    "Scan": control.scan,
    "Slice": _slice,
    "TopK": older_opsets.top_k_by_input,
    "Upsample": upsample,
}

# (domain, operator) → the function that emits its replacement.
EXPANSIONS: dict[tuple[str, str], Expand] = {
    **{("", name): expand for name, expand in _STANDARD.items()},
    ("ai.onnx.preview", "FlexAttention"): inline,
    **classical.EXPANSIONS,
    **contrib.EXPANSIONS,
    **quantized.EXPANSIONS,
}


def expand_operators(
    model: ModelProto, name: str, own: Container[str] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """Replace each node that has an entry in `EXPANSIONS`, and infer the shapes of all values.

    Args:
        model: Model whose inputs have static shapes and whose nodes have unique names; it is changed.
        name: The model's, for messages.
        own: Names of nodes in branches and loops of the source model, which keep them when they are inlined.

    Returns:
        New node's name → its source's; name of a node that had to stay → why.

    Raises:
        ModelError: The shapes of its nodes contradict each other.
    """
    sources: dict[str, str] = {}
    outputs = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in model.graph.output]
    while True:
        # onnx's shape inference of some operators (STFT) overwrites the declared types of the model's outputs.
        del model.graph.output[:]
        model.graph.output.extend(outputs)
        fold_shapes(model, name)
        while declare_custom(model):
            fold_shapes(model, name)
        before = {node.name for node in model.graph.node}
        expansion = Expansion(model, own)
        expansion.run(EXPANSIONS)
        sources.update((new, sources.get(old, old)) for new, old in expansion.sources.items())
        if before.issuperset(node.name for node in model.graph.node):
            # An operator that an earlier round refused may have been replaced since, once its shapes were known.
            return sources, expansion.refused
