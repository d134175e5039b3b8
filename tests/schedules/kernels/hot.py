# SPDX-License-Identifier: Apache-2.0
"""A large call of each kernel, with its hottest loop: what histograms and counts of threads are made of."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

from tvm import tirx

from schedules.composites.workload import Workload
from schedules.cores import CORES
from schedules.select import kernel_named
from tests.schedules import dynamic_cases, float_cases
from tests.schedules.block_cases import Case, gathered
from tests.schedules.float_cases import conv2d
from tests.schedules.grouped_cases import grouped, weights_of
from tests.schedules.half_cases import halved, weight_only
from tests.schedules.kernels.attention import test_attention_f32 as attention
from tests.schedules.kernels.elementwise import test_broadcast_s8 as broadcast
from tests.schedules.kernels.elementwise import test_elementwise_s8 as elementwise
from tests.schedules.kernels.gemm import test_matmul_f32 as matmul_f32
from tests.schedules.kernels.gemm import test_matmul_s8 as matmul
from tests.schedules.kernels.normalization import test_norm_f32 as norm_f32
from tests.schedules.kernels.normalization import test_norm_s8 as norm_s8
from tests.schedules.kernels.recurrent import test_lstm_s8 as lstm_s8
from tests.schedules.kernels.recurrent import test_recurrent_f32 as recurrent
from tests.schedules.kernels.recurrent import test_recurrent_s8 as recurrent_s8
from tests.schedules.kernels.softmax import test_softmax_f32 as softmax_f32
from tests.schedules.kernels.softmax import test_softmax_s8 as softmax
from tests.schedules.kernels.trees import test_tree_ensemble as trees
from tests.schedules.products import SHAPES, Quant, conv
from tests.schedules.programs import BASELINE, NEON, NEON_CORES, assembly, linear, loops

TARGETS = {name: {**BASELINE, "mcpu": name} for name in CORES} | {"neoverse-n2": NEON}

MAC = r"[su]mmla|[su]dot|bfmmla|fmla|[su]ml[as]l2?|[su]mull2?"
VECTOR = r"(?!mov)\w+ v\d+"  # arithmetic on vectors; loads and stores have q registers

# As a network has it behind relu6: no odd zero point, whose last bit costs an instruction.
RELU6 = Quant(zero_point=-128, border=-128)

AROUND = (1, 1, 1, 1)

HALVES = ("float16", "float16")


def dynamic_of_nine_bits(dtype: str = "uint8") -> dynamic_cases.Case:
    """A convolution of data quantised at run time by nine-bit weights (uint8 minus a zero point)."""
    window = dynamic_cases.Window((3, 3), pads=AROUND)
    return dynamic_cases.Case((1, 14, 14), 64, 64, dtype=dtype, nine_bits=True, window=window)


@dataclass(frozen=True)
class Hot:
    """A large call.

    Attributes:
        kernel: Its name.
        make: Makes what it computes.
        floor: Least share of `work` in the hottest loop.
        cores: That it is compiled for.
        work: Regular expression of the mnemonics that the loop is there for.
        variant: What sets it apart from others of the kernel.
    """

    kernel: str
    make: Callable[[], Workload]
    floor: float
    cores: tuple[str, ...] = ("neoverse-n2", "cortex-a76")
    work: str = MAC
    variant: str = ""

    @property
    def name(self) -> str:
        """Of its golden files."""
        return f"{self.kernel}-{self.variant}" if self.variant else self.kernel

    @cached_property
    def workload(self) -> Workload:
        """What it computes."""
        return self.make()

    @cache  # noqa: B019 (there are as many as HOT has)
    def function(self, core: str) -> tirx.PrimFunc:
        """The kernel with its default parameters, on a core without its SVE."""
        kernel = kernel_named(self.kernel)
        return kernel.build(self.workload, kernel.default(self.workload, NEON_CORES[core]))

    def share(self, loop: list[str]) -> float:
        """Of `work` in a loop."""
        return sum(re.match(rf"({self.work})\b", line) is not None for line in loop) / len(loop)

    @cache  # noqa: B019 (as above)
    def loops(self, core: str) -> list[list[str]]:
        """The innermost loops."""
        return loops(assembly(self.function(core), TARGETS[core]))

    def hottest(self, core: str) -> list[str]:
        """The loop with the most work."""
        return max(self.loops(core), key=lambda loop: self.share(loop) * len(loop))


def histogram(loop: list[str]) -> str:
    """Its instructions by mnemonic, the most frequent first, such as "3: 2 fmla, b.ne"."""
    counts = Counter(line.split()[0] for line in loop)
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return f"{len(loop)}: " + ", ".join(name if count == 1 else f"{count} {name}" for name, count in kinds)


N2, A76, OLD = ("neoverse-n2",), ("cortex-a76",), ("cortex-a53", "cortex-a72")

# Floors are the shares when they were written, rounded down. Where there is nothing to multiply, all arithmetic on
# vectors is the work.
HOT = (
    Hot("gemm_f32", lambda: linear(256, 256, 256, ("bias", "relu")), 0.85, (*N2, *A76, "cortex-a53")),
    Hot("gemm_f16", lambda: halved(linear(256, 256, 256, ("bias", "relu")), "float16"), 0.87),
    Hot("gemm_bf16", lambda: halved(linear(256, 256, 256, ("bias",)), "bfloat16", cast=False), 0.78, N2),
    Hot("gemm_w8", lambda: weight_only(linear(256, 256, 256, ("bias",)), "float32"), 0.82),
    Hot("gemm_blocks_f32", lambda: grouped(256, weights_of(256, 256, 32), ("bias",)), 0.82),
    Hot("gemm_blocks", lambda: Case(32, 256, 256).workload, 0.53),
    Hot("gemm_blocks_mmla", lambda: Case(32, 256, 256).workload, 0.45, N2),
    Hot("gather_blocks", lambda: gathered(Case(1, 256, 256), 8), 0.1),
    Hot(
        "winograd_f32", lambda: conv2d((1, 28, 28, 128), 128, (3, 3), ("bias", "relu"), padding=AROUND), 0.85
    ),
    Hot(
        "depthwise_f32",
        lambda: conv2d((1, 56, 56, 96), 96, (3, 3), ("bias",), padding=AROUND, groups=96),
        0.6,
    ),
    Hot("gemm_s8_mmla", lambda: SHAPES["conv 3 x 3"]().workload, 0.81, N2),
    Hot("gemm_s8_sdot", lambda: SHAPES["conv 3 x 3"]().workload, 0.86, (*A76, "cortex-a55")),
    Hot("gemm_s8_mmla", lambda: dynamic_of_nine_bits().workload, 0.81, N2, variant="nine_bits"),
    Hot("gemm_s8_sdot", lambda: dynamic_of_nine_bits("int8").workload, 0.88, A76, variant="nine_bits"),
    Hot("gemm_s8_mlal", lambda: SHAPES["gemm 256"]().workload, 0.9, OLD, MAC + "|sadalp"),
    Hot("depthwise_s8", lambda: depthwise_s8(96), 0.29),
    Hot("depthwise_s8_mlal", lambda: depthwise_s8(96), 0.68, OLD, MAC + "|saddw2?"),
    Hot("depthwise_s8_patch", lambda: depthwise_s8(96, (5, 5)), 0.3),
    Hot("matmul_s8", lambda: matmul.case((6,), (197, 64, 197)).workload, 0.8),
    Hot(
        "matmul_s8",
        lambda: matmul.case((6,), (197, 64, 197)).workload,
        0.86,
        OLD,
        MAC + "|sadalp",
        variant="smlsl",
    ),
    Hot(
        "matmul_f32",
        lambda: matmul_f32.Case((6,), (197, 64, 197)).workload,
        0.84,
        (*N2, *A76, "cortex-a53"),
    ),
    Hot("attention_f32", lambda: attention.Case((2,), (128, 64, 128, 64), scale=0.125).workload, 0.85),
    Hot(
        "attention_f32",
        lambda: attention.Case((2,), (128, 64, 128, 64), scale=0.125, dtypes=HALVES).workload,
        0.84,
        variant="half",
    ),
    Hot(
        "elementwise_s8",
        lambda: elementwise.workload("add", (elementwise.A, elementwise.B, elementwise.Y), (1 << 20,)),
        0.75,
        work=VECTOR,
    ),
    Hot(
        "broadcast_s8",
        lambda: broadcast.Case("add", ((1024, 1024), (1024,)), (broadcast.A, None, broadcast.Y)).workload,
        0.55,
        work=VECTOR,
    ),
    Hot("norm_f32", lambda: norm_f32.Case((512, 768)).workload, 0.5, work=VECTOR),
    Hot(
        "norm_f32",
        lambda: norm_f32.Case((512, 768), dtypes=HALVES).workload,
        0.5,
        work=VECTOR,
        variant="half",
    ),
    Hot(
        "norm_s8",
        lambda: norm_s8.case((512, 768), norm_s8.DECIMAL, norm_s8.FINE).workload,
        0.79,
        work=VECTOR,
    ),
    Hot(
        "recurrent_f32",
        lambda: recurrent.Case(recurrent.LSTM, 3, 1, 256).workload,
        0.63,
        ("neoverse-n2", "cortex-a76", "cortex-a55", "cortex-a53"),
    ),
    Hot(
        "recurrent_f32",
        lambda: recurrent.Case(recurrent.LINEAR_GRU, 3, 6, 128).workload,
        0.73,
        variant="batch",
    ),
    Hot(
        "recurrent_s8",
        lambda: recurrent_s8.Case(recurrent.LSTM, 3, 1, 256).workload,
        0.63,
        ("neoverse-n2", "cortex-a76", "cortex-a55"),
    ),
    Hot(
        "recurrent_s8",
        lambda: recurrent_s8.Case(recurrent.LSTM, 3, 6, 128, nine_bits=True).workload,
        0.73,
        ("neoverse-n2", "cortex-a76"),
        variant="batch",
    ),
    Hot(
        "recurrent_s8",
        lambda: recurrent_s8.Case(recurrent.LSTM, 3, 1, 256).workload,
        0.7,
        OLD,
        MAC + "|sadalp",
        variant="smull",
    ),
    Hot(
        "lstm_s8",
        lambda: lstm_s8.Case(lstm_s8.LSTM, 3, 1, 256).workload,
        0.63,
        ("neoverse-n2", "cortex-a76"),
    ),
    Hot("softmax_f32", lambda: softmax_f32.Case((512, 768)).workload, 0.68, work=VECTOR),
    Hot(
        "softmax_f32",
        lambda: softmax_f32.Case((512, 768), dtypes=HALVES).workload,
        0.65,
        work=VECTOR,
        variant="half",
    ),
    Hot(
        "softmax_s8",
        lambda: softmax.case((64, 1000), softmax.DECIMAL, softmax.PROBABILITIES).workload,
        0.76,
        work=VECTOR,
    ),
    Hot("sparse_f32", lambda: float_cases.Case(linear(256, 128, 256, ("bias",)), 0.8).workload, 0.5),
    Hot(
        "tree_ensemble",
        lambda: trees.Case(40, 6, 1, 32, ragged=0.0).workload,
        0.95,
        ("neoverse-n2", "cortex-a76", "cortex-a55"),
        work=r"ldr\w*|fcmp|cinc",
    ),
)

# Shapes of networks whose loops, hottest or not, LLVM had on the stack until the kernels gave it an order.
ORDERED = (
    Hot("depthwise_s8", lambda: depthwise_s8(144, strides=(2, 2)), 0.19, (*N2, *A76)),
    Hot(
        "gemm_s8_sdot",
        lambda: conv((1, 32, 32, 3), 64, (7, 7), strides=(2, 2), pads=(3, 3, 3, 3), quant=RELU6).workload,
        0.67,
        A76,
    ),
    Hot("matmul_s8", lambda: matmul.case((3,), (65, 65, 64)).workload, 0.87, A76),
    Hot("winograd_f32", lambda: conv2d((1, 14, 14, 64), 64, (3, 3), ("bias", "relu"), padding=AROUND), 0.83),
    Hot("winograd_f32", lambda: conv2d((1, 8, 8, 32), 32, (3, 3), ("bias", "silu"), padding=AROUND), 0.81),
)


def depthwise_s8(
    channels: int, size: tuple[int, int] = (3, 3), strides: tuple[int, int] = (1, 1)
) -> Workload:
    """Of 56 x 56 pixels."""
    pads, x = (size[0] // 2, size[1] // 2) * 2, (1, 56, 56, channels)
    return conv(x, channels, size, groups=channels, strides=strides, pads=pads, quant=RELU6).workload
