# SPDX-License-Identifier: Apache-2.0
"""What the space of each kernel with parameters can vary, by axis; for all of them it varies the kernel itself."""

from dataclasses import fields

from arm_ext.tune.kernels import KERNELS

THREADS = {"parallel"}
"""No axis: that follows from a call's cycles."""

AXES: dict[str, dict[str, set[str]]] = {
    "gemm_f32": {
        "tile": {"rows", "vectors"},
        "order of loops": {"row_block", "panels"},
        "blocks of k": {"k_blocks"},
        "instruction": {"sve"},
    },
    "gemm_f16": {"tile": {"rows", "vectors"}, "order of loops": {"row_block"}, "instruction": {"widening"}},
    "gemm_bf16": {"tile": {"row_pairs", "column_pairs"}, "order of loops": {"column_blocks"}},
    "gemm_w8": {"tile": {"tile"}},
    "gemm_blocks_f32": {"tile": {"tile"}},
    "gemm_blocks": {"tile": {"rows", "vectors"}, "instruction": {"dot"}},
    "winograd_f32": {
        "algorithm": {"outputs"},
        "tile": {"rows", "vectors"},
        "order of loops": {"block"},
    },
    "depthwise_f32": {"tile": {"rows", "columns"}},
    "elementwise_s8": {"unrolling": {"unroll"}},
    "depthwise_s8": {"unrolling": {"unroll"}, "order of loads": {"reload"}},
    "gemm_s8_mmla": {
        "order of loads": {"reload"},
        "tile": {"row_pairs", "column_pairs"},
        "order of loops": {"column_blocks"},
        "unrolling": {"unroll"},
        "instruction": {"sve"},
    },
    "gemm_s8_sdot": {
        "order of loads": {"reload"},
        "tile": {"rows", "vectors"},
        "order of loops": {"column_blocks"},
        "instruction": {"sve"},
    },
    "depthwise_s8_mlal": {"unrolling": {"unroll"}, "instruction": {"chain"}, "order of loads": {"reload"}},
    "depthwise_s8_patch": {
        "tile": {"down", "across"},
        "instruction": {"engine"},
        "order of loads": {"ordered", "reload"},
    },
    "gemm_s8_mlal": {
        "order of loads": {"reload"},
        "tile": {"rows", "columns"},
        "order of loops": {"column_blocks"},
        "instruction": {"chain", "sve"},
    },
    "gemm_f32_sme": {"threads of a unit": {"tasks"}},
    "gemm_s8_sme": {"threads of a unit": {"tasks"}},
    "matmul_s8": {"instruction": {"unit"}, "tile": {"row_vectors", "column_vectors"}},
    "matmul_f32": {"tile": {"rows", "vectors"}, "instruction": {"sve"}},
    "attention_f32": {"tile": {"rows", "vectors"}, "instruction": {"sve"}},
    "softmax_s8": {"instruction": {"gather"}},
    "norm_s8": {"instruction": {"dot"}},
    "recurrent_f32": {"tile": {"rows", "vectors"}},
    "recurrent_s8": {"tile": {"rows", "vectors"}, "instruction": {"dot"}},
    "lstm_s8": {"tile": {"rows", "vectors"}, "instruction": {"dot"}},
    "tree_ensemble": {"tile": {"rows", "walks"}, "instruction": {"fused"}, "algorithm": {"early"}},
    "metaschedule": {"all of MetaSchedule's rules": {"trace"}},
}


def test_every_parameter_of_every_kernel_is_on_an_axis():
    own = {kernel.NAME: {field.name for field in fields(kernel.Params)} - THREADS for kernel in KERNELS}
    varied = {name: parameters for name, parameters in own.items() if parameters}
    assert {name: set().union(*axes.values()) for name, axes in AXES.items()} == varied
