# SPDX-License-Identifier: Apache-2.0
"""Each operator of onnxruntime's own, in the forms that its optimisers write."""

from collections.abc import Callable

import numpy as np

from tests.arm_ext.frontends.onnx.one_node import OneNode

Case = Callable[[], OneNode]

F32 = ("float32",)
BATCH, STEPS, HEADS, SIZE = 2, 3, 2, 8
WIDTH = HEADS * SIZE


def _node(op: str, *shapes: tuple[int, ...], weights: int = 0, opset: int = 17, **attributes: object) -> Case:
    """Float inputs, of which the last are weights."""

    def build() -> OneNode:
        node = OneNode(op, opset=opset, outputs=F32, attributes=attributes)
        for k, shape in enumerate(shapes):
            node = (
                node.weight("float32", *shape) if k >= len(shapes) - weights else node.take("float32", *shape)
            )
        return node

    return build


def _skip_norm(op: str, *vectors: bool, outputs: int = 1, opset: int = 17) -> Case:
    def build() -> OneNode:
        node = OneNode(op, opset=opset, outputs=F32 * outputs, gaps=(1, 2) if outputs > 1 else ())
        node.take("float32", BATCH, STEPS, 9).take("float32", BATCH, STEPS, 9)
        for held in vectors:
            node = node.weight("float32", 9) if held else node.skip()
        return node

    return build


def _embed(*, mask: bool, segments: bool) -> Case:
    def build() -> OneNode:
        node = OneNode("EmbedLayerNormalization", outputs=("float32", "int32"), attributes={"epsilon": 1e-5})
        node.hold(node.rng.integers(0, 11, (BATCH, STEPS)), "int32")
        node = node.hold([[0, 1, 1], [0, 0, 1]], "int32") if segments else node.skip()
        node.weight("float32", 11, 9).weight("float32", 7, 9)
        node = node.weight("float32", 2, 9) if segments else node.skip()
        node.weight("float32", 9).weight("float32", 9)
        return node.hold([[1, 1, 0], [1, 0, 0]], "int32") if mask else node

    return build


def _quantized_embed() -> OneNode:
    node = OneNode("QEmbedLayerNormalization", outputs=("float32", "int32"))
    node.hold(node.rng.integers(0, 11, (BATCH, STEPS)), "int32").hold([[0, 1, 1], [0, 0, 1]], "int32")
    for shape in ((11, 9), (7, 9), (2, 9), (9,), (9,)):
        node.weight("uint8", *shape)
    node.hold([[1, 1, 0], [1, 0, 0]], "int32")
    for scale in (0.01, 0.02, 0.03, 0.015, 0.04):
        node.hold(scale)
    for zero in (128, 3, 127, 0, 200):
        node.hold(zero, "uint8")
    return node


MASKS = {
    "no_mask": None,
    "lengths": np.array([3, 2]),
    "ends_and_starts": np.array([3, 2, 1, 0]),
    "keys": np.array([[1, 1, 0], [0, 1, 1]]),
    "pairs": np.tril(np.ones((BATCH, STEPS, STEPS), int)),
}


def _attention(mask: str, *, past: bool = False, **attributes: object) -> Case:
    def build() -> OneNode:
        sizes = attributes.get("qkv_hidden_sizes", [WIDTH] * 3)
        node = OneNode("Attention", outputs=F32 * (1 + past), attributes={"num_heads": HEADS, **attributes})
        node.take("float32", BATCH, STEPS, 5).weight("float32", 5, sum(sizes)).weight("float32", sum(sizes))
        held = MASKS[mask]
        node = node.skip() if held is None else node.hold(held, "int32")
        return node.take("float32", 2, BATCH, HEADS, 4, SIZE) if past else node

    return build


def _quantized_attention() -> OneNode:
    node = OneNode("QAttention", outputs=F32, attributes={"num_heads": HEADS, "unidirectional": 1})
    node.take("uint8", BATCH, STEPS, 5).weight("int8", 5, 3 * WIDTH).weight("float32", 3 * WIDTH)
    return node.hold(0.02).hold(0.01).skip().hold(7, "uint8").hold(0, "int8")


def _multi_head(
    mask: str = "no_mask", *, bias: bool = False, past: bool = False, crossed: bool = False
) -> Case:
    def build() -> OneNode:
        attributes = {"num_heads": HEADS, "unidirectional": int(past)}
        node = OneNode("MultiHeadAttention", outputs=F32 * (1 + 2 * past), attributes=attributes)
        node.take("float32", BATCH, STEPS, WIDTH)
        for _ in range(2):
            shape = (BATCH, HEADS, 7, SIZE) if crossed else (BATCH, STEPS, WIDTH)
            node.take("float32", *shape)
        node = node.weight("float32", 3 * WIDTH) if bias else node.skip()
        held = MASKS[mask]
        node = node.skip() if held is None else node.hold(held, "int32")
        node.take("float32", 1, HEADS, STEPS, STEPS + 4 * past if not crossed else 7)
        if past:
            node.take("float32", BATCH, HEADS, 4, SIZE).take("float32", BATCH, HEADS, 4, SIZE)
        return node

    return build


def _lstm(dtype: str, *, per_channel: bool, batch: int = 1, **attributes: object) -> Case:
    def build() -> OneNode:
        directions = 2 if attributes.get("direction") == "bidirectional" else 1
        outputs = ("float32",) * 3
        node = OneNode("DynamicQuantizeLSTM", outputs=outputs, attributes={"hidden_size": SIZE, **attributes})
        node.take("float32", STEPS, batch, 5).weight(dtype, directions, 5, 4 * SIZE)
        node.weight(dtype, directions, SIZE, 4 * SIZE).weight("float32", directions, 8 * SIZE)
        for _ in range(4):
            node.skip()
        shape = (directions, 4 * SIZE) if per_channel else (directions,)
        for scale in (0.011, 0.007):
            values = scale * (1 + np.arange(np.prod(shape)) % 3).reshape(shape)
            node.hold(values).hold(np.full(shape, 131 if dtype == "uint8" else 0), dtype)
        return node

    return build


def _rotary(
    *shape: int, cache: tuple[int, int] = (9, SIZE // 2), positions: object = 2, **attributes: object
) -> Case:
    def build() -> OneNode:
        node = OneNode("RotaryEmbedding", outputs=F32, attributes=attributes)
        node.take("float32", *shape).hold(np.atleast_1d(positions), "int64")
        return node.weight("float32", *cache).weight("float32", *cache)

    return build


def _group_query(steps: int, total: int, held: int, *, packed: bool = False, **attributes: object) -> Case:
    """Of `total` steps the last `steps` are new; the caches hold `held`."""

    def build() -> OneNode:
        given = {"num_heads": 4, "kv_num_heads": 2, **attributes}
        node = OneNode("GroupQueryAttention", outputs=F32 * 3, attributes=given)
        if packed:
            node.take("float32", BATCH, steps, 16 * SIZE).skip().skip()
        else:
            node.take("float32", BATCH, steps, 8 * SIZE)
            node.take("float32", BATCH, steps, 4 * SIZE).take("float32", BATCH, steps, 4 * SIZE)
        for _ in range(2):
            node.take("float32", BATCH, 2, held, 2 * SIZE)
        ends = [total - 1, total - 1] if steps == total else [total - 1, total - 3]
        node.hold(ends, "int32").hold(total, "int32")
        if "do_rotary" in attributes:
            node.weight("float32", 16, SIZE).weight("float32", 16, SIZE)
        return node

    return build


def _blocks(k: int, n: int, block: int, *, bits: int = 4, zeros: bool = False, bias: bool = False) -> Case:
    def build() -> OneNode:
        attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
        node = OneNode("MatMulNBits", outputs=F32, attributes=attributes)
        count = -(-k // block)
        node.take("float32", 3, k).weight("uint8", n, count, block * bits // 8).weight("float32", n, count)
        node = node.weight("uint8", n, -(-count * bits // 8)) if zeros else node.skip()
        return node.skip().weight("float32", n) if bias else node

    return build


def _gather_blocks() -> OneNode:
    attributes = {"block_size": 16, "quantize_axis": 1, "bits": 8}
    node = OneNode("GatherBlockQuantized", opset=21, outputs=F32, attributes=attributes)
    node.weight("uint8", 11, 32).hold([[0, 10, 3]], "int64").weight("float32", 11, 2)
    return node.weight("uint8", 11, 2)


_IMAGE = (1, 3, 9, 7)


def _channels_last_pool() -> OneNode:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 1]}
    return OneNode("NhwcMaxPool", outputs=("int8",), attributes=window).take("int8", 1, 9, 8, 3)


def _pad(opset: int) -> Case:
    def build() -> OneNode:
        node = OneNode("Pad", opset=opset, outputs=F32, attributes={"mode": "constant"}).take("float32", 2, 3)
        return node.hold([0, 1, 2, 0], "int64").hold([0.5])

    return build


CASES: dict[str, Case] = {
    "conv": _node("FusedConv", _IMAGE, (5, 3, 3, 3), (5,), weights=2, activation="Relu", pads=[1] * 4),
    "conv_leaky": _node(
        "FusedConv", _IMAGE, (5, 3, 3, 3), weights=1, activation="LeakyRelu", activation_params=[0.3]
    ),
    "conv_clip": _node(
        "FusedConv", _IMAGE, (5, 3, 3, 3), weights=1, activation="Clip", activation_params=[-1.0, 2.5]
    ),
    "conv_hard": _node(
        "FusedConv", _IMAGE, (5, 3, 3, 3), weights=1, activation="HardSigmoid", activation_params=[0.3, 0.4]
    ),
    "gemm": _node("FusedGemm", (5, 7), (9, 7), (9,), weights=2, transB=1, activation="Tanh"),
    "gemm_leaky": _node(
        "FusedGemm", (5, 7), (7, 9), weights=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.3
    ),
    "matmul": _node("FusedMatMul", (2, 7, 5), (2, 9, 7), transA=1, transB=1, alpha=0.125),
    "matmul_batches": _node("FusedMatMul", (5, 2, 7), (2, 7, 9), transBatchA=1),
    "matmul_both": _node("FusedMatMul", (7, 2, 5), (2, 7, 9), transBatchA=1, transA=1),
    "matmul_older": _node("TransposeMatMul", (7, 5), (7, 9), transA=1),
    "gelu": _node("Gelu", (3, 31)),
    "bias_gelu": _node("BiasGelu", (3, 31), (31,), weights=1),
    "fast_gelu": _node("FastGelu", (3, 31)),
    "fast_gelu_bias": _node("FastGelu", (3, 31), (31,), weights=1),
    "quick_gelu": _node("QuickGelu", (3, 31)),
    "silu": _node("QuickGelu", (3, 31), alpha=1.0),
    "skip_norm": _skip_norm("SkipLayerNormalization", True, True, True, outputs=4),
    "skip_norm_plain": _skip_norm("SkipLayerNormalization", True, False, opset=13),
    "skip_rms": _skip_norm("SkipSimplifiedLayerNormalization", True, True, outputs=4),
    "embed": _embed(mask=True, segments=True),
    "embed_plain": _embed(mask=False, segments=False),
    "embed_quantized": _quantized_embed,
    **{f"attention_{mask}": _attention(mask) for mask in MASKS},
    "attention_past": _attention("no_mask", past=True, unidirectional=1),
    "attention_sizes": _attention("keys", qkv_hidden_sizes=[WIDTH, WIDTH, 10], scale=0.3),
    "attention_quantized": _quantized_attention,
    "multi_head": _multi_head(),
    "multi_head_bias": _multi_head("keys", bias=True),
    "multi_head_past": _multi_head(past=True),
    "multi_head_crossed": _multi_head(crossed=True),
    "lstm": _lstm("uint8", per_channel=False, direction="reverse"),
    "lstm_channels": _lstm("int8", per_channel=True, batch=2, direction="bidirectional"),
    "rotary": _rotary(BATCH, STEPS, WIDTH),
    "rotary_positions": _rotary(BATCH, STEPS, WIDTH, positions=[[2, 3, 4], [0, 1, 2]], interleaved=1),
    "rotary_part": _rotary(BATCH, HEADS, STEPS, SIZE, cache=(9, 2), num_heads=HEADS, rotary_embedding_dim=4),
    "group_prompt": _group_query(3, 3, 5, do_rotary=1),
    "group_step": _group_query(1, 5, 8, do_rotary=1, rotary_interleaved=1),
    "group_grows": _group_query(1, 5, 4, packed=True, local_window_size=3),
    "group_capped": _group_query(1, 5, 8, softcap=2.0, scale=0.5),
    "blocks": _blocks(40, 9, 16, bias=True),
    "blocks_zeros": _blocks(48, 9, 16, zeros=True),
    "blocks_bytes": _blocks(32, 9, 16, bits=8, zeros=True),
    "gather_blocks": _gather_blocks,
    "pool": _channels_last_pool,
    "pad": _pad(13),
    "pad_older": _pad(10),
}
