# SPDX-License-Identifier: Apache-2.0
"""The step of a walk through a decision tree, FCMP and CINC, kept from becoming a branch.

In a loop of many of them LLVM takes a plain `child + (value > threshold)` for a select and makes a branch of it, for
cores that speculate, as if the data were predictable; metadata that say otherwise are lost before. As assembly the two
instructions stay together, which cores that issue out of order do not mind.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check

_TYPES = {"float32": ("float", "s"), "float64": ("double", "d")}

_FUNCTION = """
define linkonce_odr hidden i64 @arm_next_node_{dtype}({type} %value, {type} %threshold, i64 %child) alwaysinline {{
  %next = call i64 asm "fcmp ${{1:{register}}}, ${{2:{register}}}\\0Acinc $0, $3, gt", "=r,w,w,r,~{{cc}}"(
    {type} %value, {type} %threshold, i64 %child)
  ret i64 %next
}}
"""

_DEFINITION = "".join(
    _FUNCTION.format(dtype=dtype, type=name, register=register) for dtype, (name, register) in _TYPES.items()
)


@contextmanager
def next_nodes() -> Iterator[None]:
    """Open a scope in which `next_node` may be emitted."""
    with T.attr(tirx.IntImm("int32", 0), "pragma_import_llvm", _DEFINITION):
        yield


def next_node(value: ir.Expr, threshold: ir.Expr, child: ir.Expr) -> ir.Var:
    """Emit child + (value > threshold), an int64; a NaN is greater than nothing."""
    dtype = str(value.ty.dtype)
    check("next_node", (value, dtype), (threshold, dtype), (child, "int64"))
    return T.Bind(tirx.call_extern("int64", f"arm_next_node_{dtype}", value, threshold, child))
