# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm

from schedules.kernels.attention.cached_f32 import (
    CachedAttention,
    cached_attention,
    cached_attention_routine,
)
from tests.schedules.programs import NEON, Array, assembly, host, loops

LAYERS = {
    "three heads a group": (CachedAttention(3, 9, 3, 64, 64, 0.125), 5),
    "a token late in the cache": (CachedAttention(1, 9, 3, 64, 64, 0.125), 40),
    "a window, one group of 8 heads, float32": (
        CachedAttention(2, 8, 1, 16, 32, 0.25, window=5, cache="float32"),
        9,
    ),
    "a head a group, of an odd size": (CachedAttention(7, 2, 2, 24, 16, 0.2), 9),
    "no rotation": (CachedAttention(2, 4, 2, 8, 8, 1.0, rotary=False), 0),
    "beyond the cache": (CachedAttention(2, 2, 1, 8, 16, 1.0), 99),
    "before the cache": (CachedAttention(2, 2, 1, 8, 16, 1.0), -4),
}


class Case:
    """Arguments of a layer: keys and values of positions not yet reached are infinite."""

    def __init__(self, layer: CachedAttention, position: int) -> None:
        rng = np.random.default_rng(3)
        self.layer, self.position = layer, position
        self.first = int(np.clip(position, 0, layer.capacity - layer.rows))
        self.qkv = rng.normal(size=(layer.rows, (layer.heads + 2 * layer.groups) * layer.size)).astype(
            np.float32
        )
        angles = np.arange(layer.capacity)[:, None] * 100.0 ** (-np.arange(layer.size // 2) / layer.size)
        self.table = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
        keys, values = (rng.normal(size=layer.values).astype(layer.cache) for _ in range(2))
        keys[:, self.first :], values[:, self.first :] = np.inf, np.inf
        self.keys, self.values = self.blocked(keys), values

    def blocked(self, keys: Array) -> Array:
        """[group, position, size] in the layout of the cache."""
        layer = self.layer
        return np.ascontiguousarray(keys.reshape(layer.groups, -1, 8, layer.size).transpose(0, 1, 3, 2))

    @property
    def arguments(self) -> list[Array]:
        tables = [self.table] if self.layer.rotary else []
        return [np.array([self.position], np.int32), self.qkv, *tables, self.keys, self.values]

    @property
    def expected(self) -> tuple[Array, Array, Array]:
        """In float64: y, keys and values."""
        layer, rows = self.layer, slice(self.first, self.first + self.layer.rows)
        heads = self.qkv.astype(np.float64).reshape(layer.rows, -1, layer.size)
        q, k, v = np.split(heads, [layer.heads, layer.heads + layer.groups], 1)
        if layer.rotary:
            cosine, sine = self.table[rows].astype(np.float64).transpose(1, 0, 2)[:, :, None]
            q, k = (
                np.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)
                for a, b in (np.split(part, 2, -1) for part in (q, k))
            )
        keys = self.keys.transpose(0, 1, 3, 2).reshape(layer.values).astype(np.float64)
        values = self.values.astype(np.float64)
        keys[:, rows] = k.transpose(1, 0, 2).astype(layer.cache)
        values[:, rows] = v.transpose(1, 0, 2).astype(layer.cache)
        y = np.zeros((layer.rows, layer.heads, layer.size))
        for row in range(layer.rows):
            end = self.first + row + 1
            begin = max(0, end - layer.window) if layer.window else 0
            for head in range(layer.heads):
                group = head * layer.groups // layer.heads
                powers = np.exp(keys[group, begin:end] @ q[row, head] * layer.scale)
                y[row, head] = powers @ values[group, begin:end] / powers.sum()
        return y.reshape(layer.rows, -1), self.blocked(keys), values

    def check(self, y: Array, keys: Array, values: Array) -> None:
        """Compare results with the definition, bit for bit, and the definition with sums in float64."""
        position, qkv, *table, old_keys, old_values = self.arguments
        defined = cached_attention(
            self.layer, int(position[0]), qkv, table[0] if table else None, old_keys, old_values
        )
        for own, other in zip((y, keys, values), defined, strict=True):
            np.testing.assert_array_equal(own, other)
        wanted, *caches = self.expected
        # Sums of so many products, and a rotation, in binary32; float16 keys differ where a tie is rounded.
        assert np.abs(y - wanted).max() <= 2e-5 * np.abs(wanted).max()
        known = np.isfinite(caches[0])
        step = 2.0**-10 if self.layer.cache == "float16" else 1e-6
        assert np.abs(keys[known] - caches[0][known]).max() <= step * np.abs(caches[0][known]).max()
        assert (np.isinf(keys) == np.isinf(caches[0])).all()
        np.testing.assert_array_equal(values, caches[1].astype(self.layer.cache))


@pytest.mark.parametrize("name", LAYERS)
def test_values(name: str):
    case = Case(*LAYERS[name])
    function = cached_attention_routine(case.layer).func.with_attr("global_symbol", "main")
    built = tvm.compile(tvm.IRModule({"main": function}), host())
    *others, keys, values = map(tvm.runtime.tensor, case.arguments)
    y = tvm.runtime.empty((case.layer.rows, case.layer.heads * case.layer.size), "float32")
    built(*others, keys, values, y, keys, values)
    case.check(y.numpy(), keys.numpy(), values.numpy())


def test_instructions_of_a_position():
    """Scores of 8 positions by 16 elements, and sums of 4 positions by 32, of three heads."""
    layer = CachedAttention(1, 9, 3, 64, 512, 0.125)
    function = cached_attention_routine(layer).func.with_attr("global_symbol", "attention")
    found = [
        loop for loop in loops(assembly(function, NEON)) if sum("fmla" in line for line in loop) == 4 * 24
    ]
    assert len(found) == 3
    assert max(map(len, found)) <= 149
    assert not [line for loop in found for line in loop if "[sp" in line]
