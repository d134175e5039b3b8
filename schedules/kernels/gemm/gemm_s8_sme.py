# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SMOPA of SME: implicit GEMM, requantised out of ZA; see `outer_products`.

Sums of the forms "biased", "magic" and "fused" are requantised as "magic", others as "convert", with limits as floats:

    q = (round half to even (min(max(fl(fl(acc) * m), low - zp), high - zp))) + zp

which equals the definition since the limits are integers.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sme
from schedules.intrinsics.registers import VECTOR
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.epilogues.requantize import Form
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.outer_products import OuterProducts, one_group
from schedules.kernels.gemm.outer_products import Params as Params
from schedules.kernels.gemm.product_s8 import IntegerProduct, offsets_and_multipliers
from schedules.tir.emit import i64, load, store

NAME = "gemm_s8_sme"

BYTES = ("int8", "uint8")


class _Smopa(OuterProducts[IntegerProduct]):
    name, what, suffix, item = NAME, "int8 product", "sme", 1

    def product(self, workload: Workload) -> IntegerProduct | Diagnostic:
        products = product_s8.products_of(workload, NAME)
        if isinstance(products, Diagnostic):
            return products
        first = products[0]
        misfit = one_group(NAME, first) or _misfit(workload, first)
        form: Form = "convert" if first.form == "convert" else "magic"
        return misfit or replace(first, form=form, fused=False)

    def variant(self, workload: Workload, product: IntegerProduct) -> sme.Variant:
        to, info = product.to, np.iinfo(product.to.dtype)
        return sme.Variant(
            workload.operands[0].dtype,
            to.dtype,
            wide=product.form == "convert",
            odd=bool(to.zero_point % 2),
            limited=(to.low, to.high) != (info.min, info.max),
        )

    def limits(self, workload: Workload, product: IntegerProduct) -> tuple[int, float, float]:
        return product.to.zero_point, product.to.low, product.to.high

    def constants(self, workload: Workload, product: IntegerProduct, constants: Sequence[Array]) -> Array:
        offsets, multipliers = offsets_and_multipliers(workload, constants, product)
        rest = (0, sme.padded(product.columns) - product.columns)
        return np.concatenate([np.pad(offsets, rest), np.pad(multipliers, rest).view(np.int32)])

    def multiply_cycles(self, core: Core) -> float:
        return core.outer_products.s8_cycles

    def more_constants(self, product: IntegerProduct) -> tuple[Array, ...]:
        return product.residual.constants() if product.residual else ()

    def finish(
        self,
        workload: Workload,
        product: IntegerProduct,
        inputs: Sequence[tirx.Buffer],
        more: Sequence[tirx.Buffer],
        y: tirx.Buffer,
    ) -> None:
        if product.residual is None:
            return
        residual, other = product.residual, inputs[product.residual.index]

        def total(at: ir.Expr) -> ir.Expr:
            return T.Bind(residual.add(load(y, at, VECTOR), [load(other, at, VECTOR)], more))

        size = product.rows.count * product.columns
        # The last vector of results overlaps the one before it. It is computed first, while both hold the product's
        # values, and stored last.
        behind = i64(size - VECTOR)
        last = total(behind) if size % VECTOR else None
        with T.serial(i64(0), i64(size // VECTOR)) as index:
            store(y, total(T.Bind(index * VECTOR)), index * VECTOR, VECTOR)
        if last is not None:
            store(y, last, behind, VECTOR)

    def finish_cycles(self, workload: Workload, product: IntegerProduct, core: Core) -> float:
        if product.residual is None:
            return 0.0
        return product.residual.cost(product.rows.count * product.columns, VECTOR, core).cycles(core)


def _misfit(workload: Workload, product: IntegerProduct) -> Diagnostic | None:
    if product.dynamic is not None or product.form == "none":
        return declined(NAME, "sums are scaled by row", "a scale for each column", "dynamic")
    if product.form == "rescale":
        return declined(NAME, "numerics are not supported", "qdq", "tosa")
    if product.shifted or product.planes > 1 or product.to.dtype not in BYTES:
        found = f"{workload.operands[0].dtype} to {product.to.dtype}, {workload.operands[-1].dtype} weights"
        return declined(NAME, "operands are not of 8 bits", "int8 or uint8, int8 weights", found)
    if product.residual is None:
        return None
    size = product.rows.count * product.columns
    if size < VECTOR:
        return declined(NAME, "too few results for a residual addition", str(VECTOR), str(size))
    if workload.output_dtype != product.to.dtype:
        return declined(NAME, "the sum has another dtype", product.to.dtype, workload.output_dtype)
    return None


_KERNEL = _Smopa()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
