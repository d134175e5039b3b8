# SPDX-License-Identifier: Apache-2.0
"""Verification of a module after a pass."""

from tvm import IRModule
from tvm.relax.analysis import well_formed

from relay_passes.ir.sources import unnamed_calls


def verify(mod: IRModule, after: str) -> IRModule:
    """Return `mod` if it is well-formed and every call says which source node it comes from.

    Args:
        mod: The result of a pass.
        after: The pass, for the message.

    Raises:
        ValueError: Names the pass and what it broke: a defect of the pass.
    """
    try:
        well_formed(mod)
    except Exception as err:
        raise ValueError(f"{after} left a module that is not well-formed: {err}") from err
    unnamed = unnamed_calls(mod)
    if unnamed:
        raise ValueError(f"{after} left calls without a source name: {'; '.join(unnamed)}")
    return mod
