# SPDX-License-Identifier: Apache-2.0
"""Small StableHLO programs to damage: a convolution, a loop, indices, a sort, and quantised types."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np

QUANTIZED = b"""
func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant() {value = dense<[[1, -2], [3, 4], [-5, 127]]> : tensor<3x2xi8>}
    : () -> tensor<3x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  %q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 0.05:3>>
  %y = stablehlo.dot_general %q, %w, contracting_dims = [1] x [0]
    : (tensor<2x3x!quant.uniform<i8:f32, 0.05:3>>, tensor<3x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>)
    -> tensor<2x2x!quant.uniform<i8:f32, 0.5:-1>>
  %d = stablehlo.uniform_dequantize %y : (tensor<2x2x!quant.uniform<i8:f32, 0.5:-1>>) -> tensor<2x2xf32>
  return %d : tensor<2x2xf32>
}
"""


def stablehlo_files() -> list[bytes]:
    """Return programs, as bytecode and as text.

    A process of its own makes them: JAX has threads, and the importers under test are forked.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_make).result()


def _make() -> list[bytes]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    from tests.arm_ext.frontends.stablehlo.models import bytecode, convolution, text

    def model(x: jax.Array, at: jax.Array) -> object:
        y = jax.nn.relu(convolution(x, np.ones((3, 3, 2, 4), np.float32), 2))
        y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").reshape(-1)
        y = lax.fori_loop(0, 3, lambda k, z: z * 2 + k, y)
        y = jnp.pad(jnp.take(y, at, axis=0), (1, 2)).at[at].add(1.0)
        return lax.top_k(jax.nn.softmax(y), 2), jnp.argmax(y), lax.dynamic_slice(y, (at[0],), (2,))

    values = np.ones((1, 8, 8, 2), np.float32), np.array([1, 3], np.int32)
    # Less of bytecode, which a process of its own reads: half a second a file.
    functions = (jax.nn.gelu, jnp.sort)
    return [
        bytecode(model, values),
        text(model, values),
        QUANTIZED,
        *(text(f, values[:1]) for f in functions),
    ]
