# SPDX-License-Identifier: Apache-2.0
"""fp32 convolutions and linear layers on FMOPA of SME: implicit GEMM; see `outer_products`.

Each sum begins with the bias and adds its products in the order of k, each by a fused multiply-add, whatever the length
of vectors. `gemm_f32` takes k in another order, so that last bits differ from it.
"""

import math
from collections.abc import Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Step, Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sme
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm.outer_products import OuterProducts, one_group
from schedules.kernels.gemm.outer_products import Params as Params
from schedules.kernels.gemm.product import GemmProduct
from schedules.kernels.gemm.product_float import bias_of, product_of
from schedules.tir.emit import i64, load, store

NAME = "gemm_f32_sme"

INSIDE = ("relu", "clip")
"""Steps that the function applies, one of them, if no other follows the bias."""


class _Fmopa(OuterProducts[GemmProduct]):
    name, what, suffix, item = NAME, "float32 product", "f32_sme", 4

    def product(self, workload: Workload) -> GemmProduct | Diagnostic:
        product = product_of(workload, NAME)
        if isinstance(product, Diagnostic):
            return product
        if workload.step(epilogue_f32.PRELU) is not None:
            return declined(NAME, "a step has no implementation", "steps without slopes", epilogue_f32.PRELU)
        return one_group(NAME, product) or product

    def variant(self, workload: Workload, product: GemmProduct) -> sme.Variant:
        _, low, high = self.limits(workload, product)
        return sme.Variant("float32", "float32", limited=(low, high) != (-math.inf, math.inf))

    def limits(self, workload: Workload, product: GemmProduct) -> tuple[int, float, float]:
        steps = _steps(workload)
        if len(steps) == 1 and steps[0].name in INSIDE:
            low, high = steps[0].bounds or (0.0, math.inf)
            return 0, low, high
        return 0, -math.inf, math.inf

    def constants(self, workload: Workload, product: GemmProduct, constants: Sequence[Array]) -> Array:
        rest = sme.padded(product.columns) - product.columns
        bias = bias_of(workload, constants, product.columns).astype(np.float32)
        return np.pad(bias, (0, rest))

    def multiply_cycles(self, core: Core) -> float:
        return core.outer_products.f32_cycles

    def finish(
        self,
        workload: Workload,
        product: GemmProduct,
        inputs: Sequence[tirx.Buffer],
        more: Sequence[tirx.Buffer],
        y: tirx.Buffer,
    ) -> None:
        steps = self._outside(workload, product)
        if not steps:
            return
        added = next((step.operand for step in steps if step.name == "residual"), None)
        residual = inputs[added.index] if added else None
        whole, rest = divmod(product.rows.count * product.columns, LANES)
        with T.serial(i64(0), i64(whole)) as index:
            _apply(steps, y, index * LANES, LANES, residual)
        for at, lanes in copies.pieces(rest, LANES):
            _apply(steps, y, i64(whole * LANES + at), lanes, residual)

    def finish_cycles(self, workload: Workload, product: GemmProduct, core: Core) -> float:
        steps = self._outside(workload, product)
        vectors = product.rows.count * product.columns / LANES
        return (epilogue_f32.cost(steps) * vectors).cycles(core) if steps else 0.0

    def _outside(self, workload: Workload, product: GemmProduct) -> tuple[Step, ...]:
        """Return the steps that the function does not apply."""
        return () if self.variant(workload, product).limited else _steps(workload)


def _steps(workload: Workload) -> tuple[Step, ...]:
    return tuple(step for step in workload.epilogue if step.name != "bias")


def _apply(
    steps: Sequence[Step], y: tirx.Buffer, at: ir.Expr, lanes: int, residual: tirx.Buffer | None
) -> None:
    value = load(y, at, lanes)
    for step in steps:
        value = T.Bind(epilogue_f32.applied(step, value, Vector(lanes), at, residual))
    store(y, value, at, lanes)


_KERNEL = _Fmopa()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
