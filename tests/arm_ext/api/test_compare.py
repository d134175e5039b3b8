# SPDX-License-Identifier: Apache-2.0
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from arm_ext.api import digits
from arm_ext.api.compare import OURS, _exported, _file_with_ranks, _inputs_of, _profile, compare
from arm_ext.board.spec import parse_spec
from arm_ext.board.virtual import emulated_cpu
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.measure.peers.catalog import PEERS
from arm_ext.measure.peers.count import fetch
from arm_ext.measure.peers.empty import write_empty
from arm_ext.package import Selftest, load_package
from arm_ext.package.manifest import State
from arm_ext.target.profiles import resolve
from tests.arm_ext.models import mlp, model

MODEL = digits.model_path()


@pytest.mark.parametrize(
    ("board", "target", "message"),
    [
        ("local", None, "is not emulated: use virtual:CPU"),
        ("virtual:max", None, "name the profile to compile for by --target"),
        ("virtual", "host", "not emulated"),
        ("virtual", "cortex-a77", "did you mean"),
    ],
)
def test_a_board_or_target_that_cannot_be_counted_on(board: str, target: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compare(MODEL, "onnxruntime", board, target=target)


def test_a_file_of_the_wrong_kind(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="litert needs a file in the format tflite, but this one is in the format onnx"
    ):
        compare(MODEL, "litert", models={"litert": write_empty("onnx", tmp_path)})


def test_a_file_for_a_runtime_that_is_not_compared(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a model for litert, but --against does not name litert"):
        compare(MODEL, "onnxruntime", models={"litert": write_empty("tflite", tmp_path)})


def test_a_missing_model() -> None:
    with pytest.raises(UsageError, match=r"gone\.onnx: no such model"):
        compare("gone.onnx", "onnxruntime")


def test_a_package_is_compiled_already(digits_package: Path) -> None:
    with pytest.raises(UsageError, match="is already compiled"):
        compare(digits_package, "onnxruntime", mattr="-dotprod")


@pytest.mark.parametrize(
    ("board", "target", "mattr", "profile", "cpu"),
    [
        ("virtual", None, None, "arm", "cortex-a76"),
        ("virtual:neoverse-n2", None, "-sve,-sve2", "neoverse-n2", "max,sve=off,sme=off"),
        ("virtual:max,sme=off", "neoverse-n2", None, "neoverse-n2", "max,sme=off"),
        ("virtual:neoverse-n1", "cortex-a72", None, "cortex-a72", "cortex-a76"),
    ],
)
def test_the_board_says_what_to_compile_for(
    board: str, target: str | None, mattr: str | None, profile: str, cpu: str
) -> None:
    assert _profile(MODEL, board, target, mattr) == profile
    resolved = resolve(profile, mattr)
    assert emulated_cpu(parse_spec(board).cpu, profile, resolved.qemu_cpu) == cpu


def test_a_runtime_without_a_file_is_listed_with_the_reason(digits_package: Path) -> None:
    compared = compare(digits_package, "onnxruntime,litert")
    assert [row.runtime for row in compared.rows] == [OURS]
    assert compared.rows[0].libraries["model.so"] > 0
    assert [absent.runtime for absent in compared.absent] == ["onnxruntime", "litert"]
    assert "--litert-model FILE" in compared.absent[1].reason


def test_a_model_that_no_runtime_takes_is_told_before_anything_is_downloaded(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.pt2", "w") as archive:
        archive.writestr("m/archive_format", "pt2")
    said = r"m\.pt2: litert takes tflite files, and this is PyTorch: .*--litert-model FILE\.tflite"
    with pytest.raises(UsageError, match=said):
        compare(tmp_path / "m.pt2", "litert")


def program(folder: Path, function: Callable[[torch.Tensor], torch.Tensor]) -> Path:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    path = folder / "net.pt2"
    torch.export.save(torch.export.export(Net().eval(), (torch.zeros(3, 9),)), path)
    return path


def test_a_program_of_torch_is_written_as_onnx_for_onnxruntime(tmp_path: Path) -> None:
    weights = torch.from_numpy(np.random.default_rng(1).standard_normal((9, 7), np.float32))
    source = program(tmp_path, lambda x: torch.softmax(x @ weights, -1))
    x = np.random.default_rng(2).standard_normal((3, 9), np.float32)
    with _exported(source, {}, [PEERS["onnxruntime"]]) as file:
        assert file is not None
        (found,) = run_onnxruntime(file.read_bytes(), [x], integers=False)
    np.testing.assert_allclose(found, torch.softmax(torch.from_numpy(x) @ weights, -1), rtol=1e-5)
    assert not file.exists()
    with _exported(source, {}, [PEERS["litert"]]) as file:
        assert file is None


@pytest.mark.usefixtures("no_downloads")
@pytest.mark.parametrize(("name", "written"), [("pretrainedResnet", True), ("kws_ref_model", False)])
def test_a_float_tflite_model_is_written_as_onnx_for_onnxruntime(name: str, written: bool) -> None:
    source = Path(__file__).parents[4] / "shared" / "models" / f"{name}.tflite"
    with _exported(source, {}, [PEERS["onnxruntime"]]) as file:
        assert (file is not None) == written
        if file is not None:
            onnx.checker.check_model(onnx.load(file))


def test_a_program_that_onnx_lacks_is_told_before_anything_is_downloaded(tmp_path: Path) -> None:
    source = program(tmp_path, lambda x: torch.atan2(x, x + 1))
    with pytest.raises(ModelError, match=r"not written as ONNX: .*\(atan2\); name the same network by"):
        compare(source, "onnxruntime", target="cortex-a76")


@pytest.fixture
def no_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arm_ext.api.compare.fetch", lambda peer: pytest.fail(f"{peer.name} is fetched"))


@pytest.mark.usefixtures("no_downloads")
def test_a_damaged_file_is_told_before_anything_is_downloaded(digits_package: Path, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(MODEL.read_bytes()[:200])
    with pytest.raises(UsageError, match=r"m\.onnx"):
        compare(digits_package, "onnxruntime", models={"onnxruntime": tmp_path / "m.onnx"})


@pytest.mark.usefixtures("no_downloads")
def test_a_file_that_cannot_be_imported_is_listed_with_the_reason(
    digits_package: Path, tmp_path: Path
) -> None:
    swirl = onnx.helper.make_node("Swirl", ["x"], ["y"], domain="other")
    onnx.save(model([swirl], {"x": [1, 8]}, ["y"], domains=("other",)), tmp_path / "m.onnx")
    compared = compare(digits_package, "onnxruntime", models={"onnxruntime": tmp_path / "m.onnx"})
    assert [row.runtime for row in compared.rows] == [OURS]
    assert "Swirl" in compared.absent[0].reason


@pytest.mark.long
def test_onnxruntime_beside_the_shipped_model() -> None:
    """Downloads onnxruntime and an arm64 Python the first time."""
    ours, theirs = compare(MODEL, "onnxruntime", "virtual:cortex-a76", threads=2).rows
    assert theirs.scaling is not None
    assert ours.scaling is not None
    assert theirs.scaling.ratio == theirs.scaling.elapsed_instructions / ours.scaling.elapsed_instructions
    assert theirs.instruction_ratio == theirs.instructions / ours.instructions
    # Both compute the same network: a unit or two of its int8 output.
    assert theirs.distance is not None
    assert theirs.distance < 0.1
    # Its own library does the work, not the interpreter, whose call is in `empty` too.
    (library,) = [name for name in theirs.libraries if name.startswith("onnxruntime")]
    assert theirs.libraries[library] > theirs.instructions / 2
    assert theirs.empty_instructions is not None
    assert 5_000 < theirs.empty_instructions < 100_000
    assert theirs.binary_bytes > 10_000_000


@pytest.mark.long
def test_litert_runs_a_file_of_its_own(tmp_path: Path) -> None:
    compared = compare(MODEL, "litert", models={"litert": write_empty("tflite", tmp_path)})
    _, theirs = compared.rows
    assert theirs.distance is None
    assert theirs.instructions == pytest.approx(theirs.empty_instructions, rel=0.05)


@pytest.mark.long
def test_a_runtime_that_refuses_the_model_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "m.onnx"
    broken.write_bytes(b"\x08\x08no model")
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    guest = fetch(PEERS["onnxruntime"])
    before = {*guest.root.rglob("*.pyc")}
    with pytest.raises(ModelError, match=r"onnxruntime 1\.\S+ cannot run it: \S+"):
        guest.count(broken, [], cpu="cortex-a76", core="cortex-a76")
    assert {*guest.root.rglob("*.pyc")} == before


def test_a_file_with_open_sizes_is_compared_at_the_shape_given(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(mlp("n"), path)
    with pytest.raises(UsageError, match="--shape"):
        compare(path, "litert")
    compared = compare(path, "litert", shapes={"x": (2, 31)})
    assert [row.runtime for row in compared.rows] == [OURS]
    assert compared.macs == 2 * (31 * 9 + 9 * 7)


def test_a_shape_is_for_a_file(digits_package: Path) -> None:
    with pytest.raises(UsageError, match="--shape: a package is already compiled"):
        compare(digits_package, "litert", shapes={"image": (1, 1, 8, 8)})
    with pytest.raises(UsageError, match="needs one shape per input"):
        compare(digits_package, "litert", shapes={"image": ((1, 2), 1, 8, 8)})


def test_states_of_a_tflite_model_are_no_inputs_of_its_file(digits_package: Path, tmp_path: Path) -> None:
    package = load_package(digits_package)
    states = [State(input="s", output="t", shape=[1], dtype="float32", initial="zeros")]
    stateful = replace(package, manifest=package.manifest.model_copy(update={"states": states}))
    x, s = np.zeros(1), np.ones(1)
    selftest = Selftest([x, s], [], [], "")
    tflite, onnx_file = (write_empty(kind, tmp_path) for kind in ("tflite", "onnx"))
    assert _inputs_of(tflite, stateful, selftest) == [x]
    assert _inputs_of(onnx_file, stateful, selftest) == [x, s]
    assert _inputs_of(tflite, package, selftest) == [x, s]


def test_a_rank_that_an_output_contradicts_is_not_declared(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x, int64[n] sizes) => (float[a, b] wrong, float[2, 3] right)
        { wrong = Reshape(x, sizes) right = Abs(x) }"""
    )
    path, x, sizes = tmp_path / "m.onnx", np.ones((2, 3), np.float32), np.array([1, 2, 3])
    onnx.save(model, path)

    def run_twice(file: Path) -> None:
        session = onnxruntime.InferenceSession(file)
        bound = session.io_binding()
        bound.bind_cpu_input("x", x)
        bound.bind_cpu_input("sizes", sizes)
        for output in session.get_outputs():
            bound.bind_output(output.name)
        for _ in range(2):
            session.run_with_iobinding(bound)

    with pytest.raises(RuntimeError, match="Invalid rank"):
        run_twice(path)
    with _file_with_ranks(path, [x[None], x]) as file:
        run_twice(file)
        outputs = onnx.load(file).graph.output
        assert [output.type.tensor_type.HasField("shape") for output in outputs] == [False, True]
    with _file_with_ranks(path, [x, x]) as file:
        assert file == path
