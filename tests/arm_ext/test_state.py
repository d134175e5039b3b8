# SPDX-License-Identifier: Apache-2.0
"""`step` and `reset` of packages with states, against `main` called by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
import tvm
from onnx import helper
from torch import Tensor, nn
from tvm import relax

import arm_ext
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from arm_ext.package import Package
from tests.arm_ext import state_models

Array = npt.NDArray[Any]
PAIRS = {"h": "hn", "c": "cn"}
# Of both states, which are so equal constants.
HALF = np.full((1, 1, state_models.HIDDEN), 0.5, np.float32)


def machine(package: Package) -> relax.VirtualMachine:
    return relax.VirtualMachine(tvm.runtime.load_module(str(package.so)), tvm.cpu())


def call(function: Any, *arrays: Array) -> list[Array]:
    result = function(*(tvm.runtime.tensor(array) for array in arrays))
    return [tensor.numpy() for tensor in ([result] if isinstance(result, tvm.runtime.Tensor) else result)]


def frames(count: int) -> list[Array]:
    return list(
        np.random.default_rng(2).standard_normal((count, 1, 1, state_models.INPUT)).astype(np.float32)
    )


def compiled(model: Any, folder: Path, pairs: dict[str, str] | None = None, **options: Any) -> Package:
    return arm_ext.compile(model, "host", folder / "p", state=pairs, **options).package


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return compiled(
        state_models.lstm({"c": HALF}), tmp_path_factory.mktemp("lstm"), PAIRS, state_init={"h": HALF}
    )


def test_states_are_last_and_in_the_manifest(lstm: Package):
    manifest = lstm.manifest
    assert [tensor.name for tensor in manifest.inputs] == ["x", "h", "c"]
    assert [tensor.name for tensor in manifest.outputs] == ["y", "hn", "cn"]
    found = [(s.input, s.output, s.shape, s.dtype, s.initial) for s in manifest.states]
    assert found == [(i, o, [1, 1, 7], "float32", "given") for i, o in PAIRS.items()]


def test_steps_are_main_with_the_states_that_it_returned(lstm: Package):
    vm, states = machine(lstm), [HALF, HALF]
    for x in frames(5):
        y, *states = call(vm["main"], x, *states)
        np.testing.assert_array_equal(call(vm["step"], x), [y])


def test_swapped_states_are_those_of_main(tmp_path: Path):
    """Steps of two machines in turn, with a reset, a refused input and outputs that the caller overwrites."""
    package = compiled(state_models.convolution(), tmp_path, {"buffer": "buffer_out"})
    module = tvm.runtime.load_module(str(package.so))
    rng = np.random.default_rng(3)
    machines = {vm: np.zeros((1, 3, 4), np.float32) for vm in (machine(package), machine(package))}
    machines[relax.VirtualMachine(module, tvm.cpu())] = np.zeros((1, 3, 4), np.float32)
    for step in range(6):
        for vm, state in list(machines.items()):
            x = rng.standard_normal((1, 3, 1), np.float32)
            wanted, machines[vm] = call(vm["main"], x, state)
            with pytest.raises(Exception, match="shape"):
                call(vm["step"], x[:, :2])
            y = vm["step"](tvm.runtime.tensor(x))
            np.testing.assert_array_equal(y.numpy(), wanted)
            y.copyfrom(np.full(y.shape, 9, np.float32))
        if step == 2:
            for vm in machines:
                vm["reset"]()
            machines = {vm: np.zeros_like(state) for vm, state in machines.items()}


def test_the_self_test_has_these_steps(lstm: Package):
    selftest, vm = lstm.selftest(), machine(lstm)
    assert len(selftest.steps) == 4
    for step in selftest.steps:
        # The host's baseline has no multiply-add.
        np.testing.assert_allclose(call(vm["step"], selftest.inputs[0]), step, atol=1e-6)
    assert not np.allclose(selftest.steps[0], selftest.steps[1], atol=1e-3)


def test_each_machine_has_states_of_its_own(lstm: Package):
    module = tvm.runtime.load_module(str(lstm.so))
    one, other = (relax.VirtualMachine(module, tvm.cpu()) for _ in range(2))
    third = machine(lstm)
    x = frames(1)[0]
    first, second = call(one["step"], x), call(one["step"], x)
    assert not np.array_equal(first, second)
    for vm in (other, third):
        np.testing.assert_array_equal(call(vm["step"], x), first)


def test_reset_begins_anew(lstm: Package):
    vm, fresh, x = machine(lstm), machine(lstm), frames(1)[0]
    first = call(vm["step"], x)
    call(vm["step"], x)
    for each in (vm, fresh):  # with steps before it, and as the first call
        each["reset"]()
        np.testing.assert_array_equal(call(each["step"], x), first)


def test_a_step_that_fails_leaves_the_states(lstm: Package):
    vm, untouched = machine(lstm), machine(lstm)
    one, two = frames(2)
    for each in (vm, untouched):
        call(each["step"], one)
    with pytest.raises(Exception, match="shape"):
        call(vm["step"], one[..., :-1])
    np.testing.assert_array_equal(call(vm["step"], two), call(untouched["step"], two))


def test_a_state_that_is_an_input_is_a_copy(tmp_path: Path):
    vm = machine(compiled(state_models.delay(), tmp_path, {"last": "next"}))
    x = tvm.runtime.tensor(np.full((1, 9), 5, np.float32))
    np.testing.assert_array_equal(vm["step"](x).numpy(), 5)
    x.copyfrom(np.full((1, 9), 7, np.float32))  # the caller's next frame in the same memory
    np.testing.assert_array_equal(vm["step"](x).numpy(), 2)


def test_an_output_that_is_a_state_too_is_the_callers(lstm: Package):
    vm, untouched, x = machine(lstm), machine(lstm), tvm.runtime.tensor(frames(1)[0])
    for each in (vm, untouched):
        y = each["step"](x)
        if each is vm:
            y.copyfrom(np.full(y.shape, 9, np.float32))
    np.testing.assert_array_equal(vm["step"](x).numpy(), untouched["step"](x).numpy())


def test_an_output_that_a_branch_takes_from_a_state_is_the_callers(tmp_path: Path):
    vm = machine(compiled(state_models.held(), tmp_path, {"last": "next"}, state_init={"last": HALF}))
    x = np.ones_like(HALF)
    for hold in (True, True, False):
        y = vm["step"](*(tvm.runtime.tensor(value) for value in (np.array(hold), x)))
        np.testing.assert_array_equal(y.numpy(), HALF if hold else x)
        y.copyfrom(np.full(y.shape, 9, np.float32))
        vm["reset"]()


def test_a_negative_zero_stays_one(tmp_path: Path):
    zero = np.full((1, 9), -0.0, np.float32)
    vm = machine(compiled(state_models.accumulator(), tmp_path, {"sum": "sum_out"}, state_init={"sum": zero}))
    assert np.signbit(call(vm["step"], zero)).all()


def test_states_are_returned_where_nothing_else_is_and_are_the_callers(tmp_path: Path):
    vm = machine(compiled(state_models.accumulator(), tmp_path, {"sum": "sum_out"}))
    x = tvm.runtime.tensor(np.ones((1, 9), np.float32))
    for count in (1, 2, 3):
        found = vm["step"](x)
        np.testing.assert_array_equal(found.numpy(), count)
        found.copyfrom(np.full((1, 9), 100, np.float32))


def test_zeros_take_no_room_in_the_file(tmp_path: Path):
    size = 1 << 18
    package = compiled(state_models.accumulator(size), tmp_path, {"sum": "sum_out"})
    assert package.manifest.states[0].initial == "zeros"
    assert package.so.stat().st_size < size  # of 4 bytes each


def test_a_state_of_a_quantised_model_stays_int8(tmp_path: Path):
    package = compiled(state_models.int8_accumulator(), tmp_path, {"sum": "sum_out"})
    assert package.manifest.states[0].dtype == "int8"
    vm, x = machine(package), np.arange(-15, 16, dtype=np.int8)[None]
    wanted = np.zeros((1, 31), np.int8)
    for _ in range(3):
        wanted = np.clip(wanted.astype(int) + x - 3, -128, 127).astype(np.int8)
        np.testing.assert_array_equal(call(vm["step"], x), [wanted])


class Counter(nn.Module):
    """A buffer of the state_dict, one that is not in it, and one that no call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.arange(5.0))
        self.register_buffer("calls", torch.tensor([3]), persistent=False)
        self.register_buffer("scale", torch.full((5,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        self.sum += x * self.scale
        self.calls += 1
        return self.sum * self.calls


def test_buffers_that_a_torch_program_changes_are_states(tmp_path: Path):
    x, module = torch.arange(1.0, 6.0), Counter().eval()
    program = torch.export.export(module, (x,))
    package = compiled(program, tmp_path)
    np.testing.assert_array_equal(module.sum.numpy(), np.arange(5))  # which is the program's own
    assert [(s.input, s.initial) for s in package.manifest.states] == [("sum", "given"), ("calls", "given")]
    selftest = package.selftest()
    for expected, source in zip(selftest.expected, selftest.source, strict=True):
        np.testing.assert_array_equal(expected, source)
    vm = machine(package)
    for _ in range(3):
        np.testing.assert_array_equal(call(vm["step"], x.numpy()), [module(x).numpy()])


@pytest.mark.parametrize(
    ("pairs", "initial", "message"),
    [
        ({"g": "hn"}, {}, r"no input g\. The inputs are: h float32\[1, 1, 7\], x"),
        ({"h": "gn"}, {}, r"no output gn\. The outputs are: hn float32"),
        ({"x": "hn"}, {}, r"input x float32\[1, 1, 5\] and output hn float32\[1, 1, 7\] differ"),
        ({"h": "hn", "c": "hn"}, {}, "output hn is the next value of 2 inputs"),
        ({"h": "hn"}, {"c": HALF}, r"c is not a state\. The states are: h"),
        ({}, {"c": HALF}, "c is not a state. The states are: none"),
        ({"h": "hn"}, {"h": HALF[0]}, r"h: shape is \[1, 7\], the model takes \[1, 1, 7\]"),
        ({"h": "hn"}, {"h": HALF.astype(np.float64)}, "h: dtype is float64"),
    ],
)
def test_a_pair_that_is_none(tmp_path: Path, pairs: dict[str, str], initial: dict[str, Array], message: str):
    with pytest.raises(UsageError, match=message):
        compiled(state_models.lstm(), tmp_path, pairs, state_init=initial)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--state", "h"], "'h' is not of the form IN=OUT"),
        (["--state", "h=hn", "--state", "h=cn"], "names an input twice"),
        (["--state", "h=hn", "--state-init", "model.onnx"], "model.onnx: not an .npz file"),
        (["--state", "h=hn", "--state-init", "none.npz"], "none.npz: no such file"),
    ],
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
):
    onnx.save(state_models.lstm(), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    assert invoke(["compile", "model.onnx", *options]) == UsageError.exit_code
    assert message in capsys.readouterr().err


def test_packages_of_several_shapes_share_their_states(tmp_path: Path):
    """Running sums over a sequence of 1, 3 or 8 values; a step of one follows on a step of another."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["part"], keepdims=1, name="sum"),
        helper.make_node("Add", ["total", "part"], ["next"], name="add"),
        helper.make_node("Add", ["x", "next"], ["y"], name="shift"),
    ]
    shapes: state_models.Shapes = {"x": ("n",), "total": (1,)}  # type: ignore[dict-item]
    model = state_models.graph(nodes, shapes, {"y": ("n",), "next": (1,)}, {})  # type: ignore[dict-item]
    vm = machine(compiled(model, tmp_path, {"total": "next"}, shapes={"x": ((1, 3, 8),)}))
    total = 0.0
    for size in (3, 1, 8, 1, 3):
        values = np.arange(size, dtype=np.float32) + size
        total += float(values.sum())
        np.testing.assert_array_equal(call(vm["step"], values)[0], values + np.float32(total))
    with pytest.raises(ValueError, match="for these shapes alone"):
        call(vm["step"], np.zeros(2, np.float32))
    vm["reset"]()
    assert call(vm["step"], np.ones(1, np.float32))[0] == [2]
