# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest


@pytest.fixture
def mca_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, so that llvm-mca is asked anew."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ARM_EXT_CACHE", str(folder))
    return folder
