# SPDX-License-Identifier: Apache-2.0
"""The rules that make one operator of a decomposed form, in the order that they run in."""

from relay_passes.rule import Rule
from relay_passes.rules import (
    affine_before_unflatten,
    fold_affine_into_norm,
    fold_pad,
    merge_clips,
    recognize_clip,
    recognize_extremum,
    recognize_gelu,
    recognize_gelu_tanh,
    recognize_hard_sigmoid,
    recognize_layer_norm,
    recognize_leaky_relu,
    recognize_relu,
    recognize_rms_norm,
    recognize_sigmoid,
    recognize_silu,
    recognize_softmax,
    recognize_softplus,
    scale_scores,
    unflatten_transpose,
)

RECOGNIZE: tuple[Rule, ...] = (
    recognize_extremum.RULE,
    recognize_clip.RULE,
    merge_clips.RULE,
    recognize_relu.RULE,
    recognize_hard_sigmoid.RULE,
    recognize_sigmoid.RULE,
    recognize_silu.RULE,
    recognize_gelu.RULE,
    recognize_gelu_tanh.RULE,
    recognize_leaky_relu.RULE,
    recognize_softplus.RULE,
    recognize_softmax.RULE,
    # Inside of a layer norm stands an RMS norm.
    recognize_layer_norm.RULE,
    recognize_rms_norm.RULE,
    fold_affine_into_norm.RULE,
    fold_pad.RULE,
    unflatten_transpose.RULE,
    affine_before_unflatten.RULE,
    # Softmax, and the transpose of keys, are recognised before.
    scale_scores.RULE,
)
