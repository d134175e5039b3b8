# SPDX-License-Identifier: Apache-2.0
"""An ensemble of trees as a C library on aarch64, on several threads."""

from pathlib import Path

from tests.arm_ext.clibrary.programs import Library, cross, run
from tests.arm_ext.frontends.onnx.tree_models import classifier, grown


def test_threads_share_the_rows_of_an_ensemble(tmp_path: Path) -> None:
    trees = grown(96, 6, 12, 3, ragged=0.0)
    model = classifier(trees, (96, 12), (0, 1, 2), post_transform="SOFTMAX")
    library = Library.of(model, tmp_path / "trees", "cortex-a76", name="trees", threads=3)
    assert "all outputs agree" in run(cross(library.selftest, tmp_path / "selftest"))
