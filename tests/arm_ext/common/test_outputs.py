# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from arm_ext.common import outputs
from arm_ext.common.errors import UsageError
from arm_ext.common.outputs import checked_file, checked_folder, install, refuse_inputs, refuse_inside
from arm_ext.common.scratch import NEW, scratch


def test_what_cannot_be_a_folder_is_refused(tmp_path: Path):
    (tmp_path / "f").write_text("mine")
    (tmp_path / "dangling").symlink_to("nothing")
    for name, says in [
        ("f", "exists and is a file"),
        ("dangling", "is a link to nothing, which does not exist"),
        ("a/b", "there is no folder .*a; create it"),
    ]:
        with pytest.raises(UsageError, match=says):
            checked_folder(tmp_path / name, "-o")
    assert checked_folder(tmp_path / "new", "-o") == tmp_path.resolve() / "new"
    with pytest.raises(UsageError, match="is a folder"):
        checked_file(tmp_path, "-o")


def test_links_that_lead_round_are_refused(tmp_path: Path):
    (tmp_path / "l").symlink_to("l")
    for check in (checked_file, checked_folder):
        with pytest.raises(UsageError, match="has circular links"):
            check(tmp_path / "l" / "new", "-o")


def test_an_input_is_known_by_any_name(tmp_path: Path):
    model = tmp_path / "m.onnx"
    model.write_text("model")
    (tmp_path / "sub").mkdir()
    (tmp_path / "soft").symlink_to("m.onnx")
    os.link(model, tmp_path / "hard")
    for other in ("m.onnx", "soft", "hard", "sub/../m.onnx"):
        with pytest.raises(UsageError, match="would overwrite the input"):
            refuse_inputs(tmp_path / other, "-o", [model])
    refuse_inputs(tmp_path / "other", "-o", [model])


def test_an_input_within_a_folder_is_known(tmp_path: Path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "m").write_text("model")
    (tmp_path / "link").symlink_to("p")
    with pytest.raises(UsageError, match="would overwrite the input"):
        refuse_inputs(tmp_path / "p", "-o", [tmp_path / "link" / "m"])
    with pytest.raises(UsageError, match="is inside"):
        refuse_inside(tmp_path / "link" / "new", "-o", tmp_path / "p")


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_takes_the_place_of_another(tmp_path: Path, at_once: bool, monkeypatch: pytest.MonkeyPatch):
    if not at_once:  # as a file system that cannot
        monkeypatch.setattr(outputs, "_exchange", lambda _one, _other: False)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "old").write_text("")
    with scratch(tmp_path) as folder:
        (folder / NEW).mkdir()
        (folder / NEW / "f").write_text("")
        install(folder / NEW, tmp_path / "p")
    assert [*tmp_path.rglob("*")] == [tmp_path / "p", tmp_path / "p" / "f"]
