# SPDX-License-Identifier: Apache-2.0
"""Verification of a module after a pass."""

from tvm import IRModule
from tvm.relax.analysis import well_formed

from relay_passes.ir.sources import unnamed_calls


def verify(mod: IRModule, after: str) -> IRModule:
    """Return `mod` if it is well-formed and all its calls have source names.

    Args:
        mod: The result of a pass.
        after: Name of the pass, for the message.

    Raises:
        ValueError: The module is invalid, which is a defect of the pass; the message names the pass and the problem.
    """
    try:
        well_formed(mod)
    except Exception as err:
        raise ValueError(f"{after} left a module that is not well-formed: {err}") from err
    unnamed = unnamed_calls(mod)
    if unnamed:
        raise ValueError(f"{after} left calls without a source name: {'; '.join(unnamed)}")
    return mod
