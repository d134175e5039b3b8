# SPDX-License-Identifier: Apache-2.0
"""Addition of an 8-bit tensor to a requantised product, such as the residual addition after a convolution.

The product is requantised before the addition, as if it had been stored, because the definition has both roundings.
`binary_tile` adds, in the form that is proven exact for the two quantisations.

ResNet-50 at 64 x 64 on Neoverse N2 (llvm-mca) takes 17.83 M instructions and 6.65 M cycles with additions in separate
kernels, and 17.77 M and 6.62 M with fused additions. With SMLAL's tiles of 16 outputs, fused additions are slower.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx

from schedules.composites.attributes import encoded
from schedules.composites.workload import Operand, Workload
from schedules.cores import Core
from schedules.intrinsics.registers import VECTOR
from schedules.intrinsics.vector import combine
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, reloading, scalar
from schedules.kernels.elementwise import binary_tile
from schedules.kernels.elementwise.binary_forms import Form, Linear, QuantizedBinary, Rescaled, form_of
from schedules.kernels.elementwise.binary_workload import binary_of, overflow

STEP = "residual"

SPILLS = 15
"""Additional instructions of a tile: loads of its constants, and reloads of accumulators that are spilled meanwhile. 14
to 20 are counted with short sums over k on SMMLA, SDOT and SMLAL."""

TOSA = "y_shift"
"""A parameter that only steps of the numerics `tosa` have."""


@dataclass(frozen=True)
class Residual:
    """The addition of a tensor to a product, y = product + tensor.

    Attributes:
        index: Index of the tensor among the composite's parameters.
        what: The addition as a quantised binary function.
        form: The cheapest form of the addition.
    """

    index: int
    what: QuantizedBinary
    form: Form

    def constants(self) -> tuple[Array, ...]:
        """Return the packed constants of the addition: one array for the form `Linear`, else none."""
        return (self.form.constants(),) if isinstance(self.form, Linear) else ()

    def add(self, values: ir.Expr, others: Sequence[ir.Expr], constants: Sequence[tirx.Buffer]) -> ir.Expr:
        """Emit 16 sums.

        Args:
            values: 16 values of the product.
            others: 16 values of the tensor, or two vectors of eight.
            constants: Buffers of the arrays that `constants` returns.
        """
        other = others[0] if len(others) == 1 else combine(*others)
        loaded = binary_tile.constants16(self.form, constants[0]) if constants else ()
        return binary_tile.binary16(self.what, self.form, values, other, loaded)

    def cost(self, outputs: float, lanes: int, core: Core) -> Cost:
        """Return the cost of the addition, with the tensor loaded `lanes` bytes at a time."""
        halves = 0 if lanes == VECTOR else outputs / VECTOR
        each = binary_tile.INSTRUCTIONS[type(self.form)]
        return arithmetic(outputs * each + halves) + scalar(outputs / lanes) + reloading(SPILLS, core)


def separate(workload: Workload) -> tuple[Workload, Workload] | None:
    """Return a workload without its residual addition, and the addition as a workload; None if there is no residual."""
    step, requantize = workload.step(STEP), workload.step("requantize")
    if step is None or step.operand is None or requantize is None:
        return None
    dtype = str(requantize.parameter("output_dtype"))
    rest = tuple(each for each in workload.epilogue if each is not step)
    product = replace(workload, epilogue=rest, output_dtype=dtype)
    attributes = tuple((name, encoded(value)) for name, value in step.parameters)
    own = Operand(workload.output_shape, dtype, "input", 0)
    numerics = "tosa_" if TOSA in dict(attributes) else ""
    operands = (own, replace(step.operand, index=1))
    total = Workload(
        f"arm.{numerics}add_s8", operands, attributes, (), workload.output_shape, workload.output_dtype
    )
    return product, total


def residual_of(workload: Workload, total: Workload) -> Residual | tuple[str, str, str]:
    """Return the residual addition of a product, or why it is not supported (reason, limit, actual value).

    Args:
        workload: A workload with a residual.
        total: Quantisation of the addition's result.
    """
    step = workload.step(STEP)
    assert step is not None
    assert step.operand is not None
    dtypes = {operand.dtype for operand in total.operands} | {total.output_dtype}
    if not dtypes <= {"int8", "uint8"}:
        return "a tensor is not of 8 bits", "int8, uint8", ", ".join(sorted(dtypes))
    if step.operand.kind != "input" or step.operand.shape != workload.output_shape or step.operand.axes:
        return "residual is no tensor of the output's shape", str(workload.output_shape), str(step.operand)
    what = binary_of(total)
    if isinstance(what, Rescaled) and not what.exact():
        return overflow(what)
    return Residual(step.operand.index, what, form_of(what))
