# SPDX-License-Identifier: Apache-2.0
"""The forms that rewrites look for, as models hold them: several nodes a step, with variants drawn.

A rule that fires too seldom gets a template: a function, and a line in TEMPLATES.
"""

from tests.fuzz import blocks, forms, leftovers, operators
from tests.fuzz.builder import Value
from tests.fuzz.step import (
    MAX_SIZE,
    Step,
    any_value,
    can_split,
    has_axes,
    is_image,
    is_small_image,
)

LONGEST = 9
"""Sequence of an attention: the code of longer ones takes seconds to generate."""


def _is_matrix(x: Value) -> bool:
    return x.rank == 2


def _fits_linear(x: Value) -> bool:
    return is_image(x) and x.size // x.shape[0] <= MAX_SIZE // 8


def _fits_attention(x: Value) -> bool:
    return x.rank <= 4 and x.shape[-3 if x.rank == 4 else -2] <= LONGEST and x.size <= MAX_SIZE // 4


TEMPLATES: tuple[Step, ...] = (
    Step(blocks.conv_batch_norm, is_image, weight=5),
    Step(blocks.conv_scale_shift, is_image, weight=4),
    Step(blocks.batch_norm_conv, is_image, weight=3),
    Step(operators.batch_norm, is_image, weight=2),
    Step(blocks.normalised_input_conv, is_image, weight=9),
    Step(blocks.linear_scale_shift, has_axes, weight=3),
    Step(blocks.linear_batch_norm, _is_matrix),
    Step(blocks.pad_window, is_small_image, weight=8),
    Step(blocks.parallel_linear, has_axes, weight=13),
    Step(blocks.attention, _fits_attention, weight=4),
    Step(blocks.attended, _fits_attention, weight=11),
    Step(blocks.squeeze_excite, is_image),
    Step(blocks.channel_shuffle, is_image),
    Step(blocks.residual, is_image),
    Step(blocks.pooled_linear, is_image),
    Step(blocks.flat_linear, _fits_linear),
    Step(forms.relu, any_value, weight=4),
    Step(forms.relu6, any_value),
    Step(forms.leaky_relu, any_value, weight=4),
    Step(forms.silu, any_value, weight=3),
    Step(forms.hard_swish, any_value, weight=6),
    Step(forms.gelu_erf, any_value, weight=3),
    Step(forms.gelu_tanh, any_value, weight=4),
    Step(forms.softplus, any_value, weight=3),
    Step(forms.sigmoid, any_value, weight=4),
    Step(forms.layer_norm, has_axes, weight=4),
    Step(forms.rms_norm, has_axes, weight=2),
    Step(forms.channel_norm, has_axes, weight=7),
    Step(forms.softmax_decomposed, has_axes, weight=4),
    Step(leftovers.no_effect, any_value, weight=4),
    Step(leftovers.powers, any_value, weight=2),
    Step(leftovers.divided, any_value, weight=10),
    Step(leftovers.scales, any_value, weight=3),
    Step(leftovers.shifts, any_value, weight=2),
    Step(leftovers.negations, any_value, weight=4),
    Step(leftovers.transposes, has_axes, weight=4),
    Step(leftovers.reshapes, any_value),
    Step(leftovers.split_and_shifted, has_axes, weight=3),
    Step(leftovers.concat_of_slices, has_axes, weight=4),
    Step(leftovers.joined_split, can_split, weight=5),
    Step(leftovers.equal_branches, any_value),
)

FLOAT_TEMPLATES: tuple[Step, ...] = (*TEMPLATES, Step(blocks.weight_only_linear, has_axes, weight=3))
"""With those whose tensors no quantiser takes."""
