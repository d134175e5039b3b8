# SPDX-License-Identifier: Apache-2.0
"""The emulator of SME, which Debian's backports have and a machine may lack."""

import pytest

from arm_ext.board.virtual import NoSmeError, sme_emulator


def has_sme() -> bool:
    """Whether boards with SME can be emulated here."""
    try:
        sme_emulator()
    except NoSmeError:
        return False
    return True


def require_sme() -> None:
    """Skip the test where boards with SME cannot be emulated."""
    if not has_sme():
        pytest.skip("no QEMU that computes SME is installed")
