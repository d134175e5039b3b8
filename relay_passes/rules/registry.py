# SPDX-License-Identifier: Apache-2.0
"""Every rewrite rule, in the order in which the phases try them.

To add a rule, add a file to this folder and a line to this module.
"""

from relay_passes.rewriter.rule import Rule
from relay_passes.rules import (
    affine_before_unflatten,
    cancel_negations,
    decompose_batch_norm,
    divide_by_power_of_two,
    divide_by_root,
    divide_to_multiply,
    expand_power,
    fold_affine_into_norm,
    fold_batch_norm,
    fold_pad,
    fold_scale,
    fold_scale_before,
    fold_shift_before,
    gather_one_hot,
    join_slices,
    join_split,
    merge_clips,
    merge_reshapes,
    merge_scales,
    merge_shifts,
    merge_transposes,
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
    remove_neutral,
    remove_noop,
    reshape_form,
    resize_to_one,
    round_before_move,
    scale_after_product,
    scale_scores,
    subtract_to_add,
    sum_halves_in_full,
    unflatten_transpose,
)

# Exact rules that remove calls without effect or merge calls; such calls would prevent matches of other patterns.
TIDY: tuple[Rule, ...] = (
    remove_noop.RULE,
    remove_neutral.RULE,
    cancel_negations.RULE,
    reshape_form.RULE,
    resize_to_one.RULE,
    merge_reshapes.RULE,
    merge_transposes.RULE,
    join_split.RULE,
    join_slices.RULE,
)
# Rules that replace a decomposed form by one operator.
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
    # Layer norm comes first, because its pattern contains that of RMS norm.
    recognize_layer_norm.RULE,
    recognize_rms_norm.RULE,
    fold_affine_into_norm.RULE,
    fold_pad.RULE,
    unflatten_transpose.RULE,
    affine_before_unflatten.RULE,
    # Rules for attention, which need softmax and the transpose of keys to be recognised before.
    scale_scores.RULE,
)
# Rules that fold into weights of float calls. The sums of such calls have no defined order, so their last bits may
# change. Folding BatchNorm as a whole rounds less than folding a scale and a shift.
FOLD: tuple[Rule, ...] = (
    fold_batch_norm.RULE,
    subtract_to_add.RULE,
    fold_scale.RULE,
    fold_scale_before.RULE,
    fold_shift_before.RULE,
)
# Rules that change the last bits of elementwise results; not for functions that quantise, where an integer could
# change.
FLOAT: tuple[Rule, ...] = (
    decompose_batch_norm.RULE,
    merge_scales.RULE,
    merge_shifts.RULE,
    divide_to_multiply.RULE,
    divide_by_root.RULE,
    expand_power.RULE,
)
# Rules that are not applied to quantised functions. Integer arithmetic makes one table of a chain of elementwise calls,
# in binary64: for gelu's and silu's forms that table is the same, but hard sigmoid's x / 6 and x · ⅙ differ at ties.
NOT_IF_QUANTIZED: tuple[Rule, ...] = (*FLOAT, recognize_hard_sigmoid.RULE)
# Operators are recognised in the forms that exporters write, before other rules give these another form.
RULES: tuple[Rule, ...] = (*TIDY, *RECOGNIZE, *FOLD, divide_by_power_of_two.RULE, *FLOAT)
# Rules for products, applied before composites are formed: products that are gathers, products in 16 bits with sums in
# 32, and products with int8 weights that stay int8.
GATHER_RULES: tuple[Rule, ...] = (gather_one_hot.RULE,)
PRODUCT_RULES: tuple[Rule, ...] = (*GATHER_RULES, sum_halves_in_full.RULE, scale_after_product.RULE)
# Rules applied after operators are converted to 16 bits.
HALF_PRECISION_RULES: tuple[Rule, ...] = (round_before_move.RULE,)
