# SPDX-License-Identifier: Apache-2.0
"""Commands of an Ethos-U and the fields of their operands, as data.

A command is a 32-bit word: bits 0-9 number, bits 14-15 kind (0: one word; 1: a second word with 32 bits of data
follows), bits 16-31 parameter. A field's position counts from bit 16, so that data begins at 16.
Source: Vela 5.2, regor/architecture/ethosu65/ethos_u65_interface.hpp (which U55 shares) and ethosu85.
"""

import functools
from dataclasses import dataclass

from arm_ext.target.npu import Family

Fields = dict[str, tuple[int, int]]  # name → first bit, width

ADDRESS_BITS = 40
_ADDRESS = "high@0+8 low@16+32"
_LENGTH = "value@16+32"
_STEP = "one_int@0+4 block_int@4+11 one_mod@16+11 block_mod@32+11"
_SCALE = "shift@0+6 double_round@6+5 round@13+1 scale@16+31"

# One word each: number, name, fields.
_COMMON_WORDS = """
    0 op_stop mask@0+16
    1 op_irq mask@0+16
    3 op_depthwise
    5 op_pool mode@0+3
    6 op_elementwise mode@0+6
    16 op_dma_start
    19 op_pmu_mask enable@0+1
    256 ifm_pad_top value@0+7
    257 ifm_pad_left value@0+7
    258 ifm_pad_right value@0+8
    259 ifm_pad_bottom value@0+8
    260 ifm_depth_m1 value@0+16
    263 ifm_upscale value@0+2
    265 ifm_zero_point value@0+16
    266 ifm_width0_m1 value@0+16
    267 ifm_height0_m1 value@0+16
    268 ifm_height1_m1 value@0+16
    271 ifm_region value@0+3
    273 ofm_width_m1 value@0+16
    274 ofm_height_m1 value@0+16
    275 ofm_depth_m1 value@0+16
    280 ofm_zero_point value@0+16
    282 ofm_width0_m1 value@0+16
    283 ofm_height0_m1 value@0+16
    284 ofm_height1_m1 value@0+16
    287 ofm_region value@0+3
    288 kernel_width_m1 value@0+16
    289 kernel_height_m1 value@0+16
    290 kernel_stride x_low@0+1 y_low@1+1 part_kernel@2+1 dilation_x@3+1 dilation_y@4+1 split4@5+1 x_high@6+1 y_high@9+1
    294 activation_min value@0+16
    295 activation_max value@0+16
    296 weight_region value@0+3
    297 scale_region value@0+3
    306 dma0_size0 value@0+16
    307 dma0_size1 value@0+16
    393 ifm2_zero_point value@0+16
    394 ifm2_width0_m1 value@0+16
    395 ifm2_height0_m1 value@0+16
    396 ifm2_height1_m1 value@0+16
    399 ifm2_region value@0+3
"""
_U55_WORDS = """
    2 op_conv
    17 op_dma_wait value@0+1
    18 op_kernel_wait value@0+2
    261 ifm_precision signed@0+1 bytes_log2@2+2 layout@6+2 scale_mode@8+2 round@14+2
    269 ifm_ib_end value@0+6
    276 ofm_precision signed@0+1 bytes_log2@1+2 layout@6+2 global_scale@8+1 round@14+2
    277 ofm_blk_width_m1 value@0+6
    278 ofm_blk_height_m1 value@0+5
    279 ofm_blk_depth_m1 value@0+7
    291 parallel_mode value@0+1
    292 acc_format bits@0+2
    293 activation function@0+5 range@12+3
    301 ab_start value@0+6
    303 blockdep value@0+2
    304 dma0_src_region value@0+3 internal@8+1 dimensions@9+2
    305 dma0_dst_region value@0+3 internal@8+1 dimensions@9+2
    384 ifm2_broadcast h@0+1 w@1+1 c@2+1 reversed@6+1 scalar@7+1
    385 ifm2_scalar value@0+16
    389 ifm2_precision signed@0+1 bytes_log2@2+2 layout@6+2
    397 ifm2_ib_start value@0+6
"""
_U85_WORDS = """
    2 op_conv weights_ifm2@0+1
    7 op_resize mode@0+2
    17 op_dma_wait value@0+2
    18 op_kernel_wait value@0+1
    261 ifm_precision signed@0+1 bytes_log2@2+2 layout@6+2 storage@14+2
    264 ifm_broadcast value@0+4
    276 ofm_precision signed@0+1 bytes_log2@1+2 layout@6+2 global_scale@8+1 reverse@9+2 transpose@11+3 storage@14+2
    277 ofm_blk_width_m1 value@0+7
    278 ofm_blk_height_m1 value@0+7
    279 ofm_blk_depth_m1 value@0+10
    292 acc_format bits@0+2 input@4+2 no_output@6+1 microblock@8+3
    293 activation function@0+5 table@5+3 range@12+1
    298 resize_x_scale_n_m1 value@0+11
    299 resize_y_scale_n_m1 value@0+11
    300 resize_x_offset value@0+12
    301 resize_y_offset value@0+12
    302 weight_format fast@0+1 sparse@4+1
    303 blockdep value@0+3
    304 dma0_src_region value@0+3 internal@8+1 dimensions@9+2 indexed@11+1
    305 dma0_dst_region value@0+3 internal@8+1 indexed@11+1
    308 dma0_idx_region value@0+3
    384 ifm2_broadcast value@0+4
    389 ifm2_precision signed@0+1 bytes_log2@2+2 layout@6+2 storage@14+2
"""

# Two words each.
_ADDRESSES: dict[str, dict[str, int]] = {
    "common": {
        **{f"ifm_base{i}": i for i in range(4)},
        **{f"ifm_stride_{axis}": 4 + i for i, axis in enumerate("xyc")},
        **{f"ofm_base{i}": 16 + i for i in range(4)},
        **{f"ofm_stride_{axis}": 20 + i for i, axis in enumerate("xyc")},
        **{f"ifm2_base{i}": 128 + i for i in range(4)},
        **{f"ifm2_stride_{axis}": 132 + i for i, axis in enumerate("xyc")},
        "weight_base": 32,
        "scale_base": 34,
        "weight1_base": 144,
        "dma0_src": 48,
        "dma0_dst": 49,
        "dma0_len": 50,
    },
    "u55": {"dma0_skip0": 51, "dma0_skip1": 52, "scale1_base": 146},
    "u85": {
        "dma0_src_stride0": 51,
        "dma0_src_stride1": 52,
        "dma0_dst_stride0": 53,
        "dma0_dst_stride1": 54,
        "dma0_idx": 55,
        "dma0_idx_skip1": 57,
        "weight2_base": 146,
        "weight3_base": 148,
    },
}
_COMMON_PAIRS = f"""
    33 weight_length {_LENGTH}
    35 scale_length value@16+20
    145 weight1_length {_LENGTH}
"""
_U55_PAIRS = """
    36 ofm_scale shift@0+6 scale@16+32
    37 opa_scale shift@0+6 scale@16+32
    38 opb_scale value@16+16
    147 scale1_length value@16+20
"""
_U85_PAIRS = f"""
    36 ofm_scale shift@0+6 double_round@6+5 round@13+3 scale@16+31
    37 ifm_scale {_SCALE}
    38 ifm2_scale {_SCALE}
    39 op_scalar {_LENGTH}
    56 dma0_idx_max value@16+31
    147 weight2_length {_LENGTH}
    149 weight3_length {_LENGTH}
    150 resize_x {_STEP}
    151 resize_y {_STEP}
    256 op_branch condition@0+1 target@16+32
"""


@dataclass(frozen=True)
class Command:
    """A kind of command.

    Attributes:
        name: Name of the register that it sets, or "op_…" of what it starts.
        fields: The operand's fields.
        used: The operand's bits that some field covers.
    """

    name: str
    fields: Fields
    used: int


def _parse(text: str) -> dict[int, Command]:
    table = {}
    for line in text.strip().splitlines():
        number, name, *fields = line.split()
        table[int(number)] = _command(name, fields)
    return table


def _command(name: str, texts: list[str]) -> Command:
    fields: Fields = {}
    used = 0
    for text in texts:
        key, position = text.split("@")
        first, width = (int(n) for n in position.split("+"))
        fields[key] = (first, width)
        used |= ((1 << width) - 1) << first
    return Command(name, fields, used)


@functools.cache
def commands(family: Family) -> tuple[dict[int, Command], dict[int, Command]]:
    """Return the one-word and the two-word commands of a family, by number."""
    own = "u85" if family == "u85" else "u55"
    words = _parse(_COMMON_WORDS) | _parse(_U85_WORDS if own == "u85" else _U55_WORDS)
    pairs = _parse(_COMMON_PAIRS) | _parse(_U85_PAIRS if own == "u85" else _U55_PAIRS)
    for name, number in (_ADDRESSES["common"] | _ADDRESSES[own]).items():
        pairs[number] = _command(name, _ADDRESS.split())
    return words, pairs


@functools.cache
def fields(family: Family) -> dict[str, Fields]:
    """Return the fields of a family's commands, by name."""
    return {c.name: c.fields for table in commands(family) for c in table.values()}
