# SPDX-License-Identifier: Apache-2.0
"""Models that keep a state on a board, step by step."""

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from torch.nn import functional

import arm_ext
from arm_ext.api import run
from arm_ext.board import Board
from arm_ext.package import Package, list_files
from tests.arm_ext import state_models, torch_states
from tests.board.stock_python import stock_python
from tests.board.test_stock_wheel import stock_only

# Sums in another order, and other polynomials for exponentials, over the steps.
BOUND = 1e-5

# What a user writes on the board: a greedy decoder of TOKENS tokens; prints them, and then those after a reset.
TOKENS = 12
GENERATE = """
import sys
import numpy as np
import tvm
from tvm import relax

vm = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
for _ in range(2):
    token, found = 1, []
    for place in range(int(sys.argv[2])):
        logits = vm["step"](*(tvm.runtime.tensor(np.array(x)) for x in ([[token]], [place])))
        token = int(logits.numpy().argmax())
        found.append(token)
    print(*found)
    vm["reset"]()
"""


def test_a_lstm_of_torch(tmp_path: Path, board: Board):
    frames = torch.randn(6, 1, 1, torch_states.FRAME)
    module, program = torch_states.seeded(torch_states.StreamingLstm, frames[0])
    package = arm_ext.compile(program, output=tmp_path / "p").package
    model = board.load(package.so)
    with torch.no_grad():
        for frame in frames:
            (found,), wanted = model.step([frame.numpy()]), module(frame).numpy()
            assert np.abs(found - wanted).max() <= BOUND * np.abs(wanted).max()


def test_a_causal_convolution_over_a_stream(tmp_path: Path, board: Board):
    proto = state_models.convolution()
    package = arm_ext.compile(proto, output=tmp_path / "p", state={"buffer": "buffer_out"}).package
    weight = next(numpy_helper.to_array(tensor) for tensor in proto.graph.initializer if tensor.name == "w")
    stream = torch.randn(1, 3, 11)
    whole = functional.conv1d(functional.pad(stream, (4, 0)), torch.from_numpy(weight.copy())).numpy()
    model = board.load(package.so)
    for _ in range(2):  # the second time after a reset
        found = np.concatenate([model.step([stream[..., k : k + 1].numpy()])[0] for k in range(11)], axis=2)
        assert np.abs(found - whole).max() <= BOUND * np.abs(whole).max()
        model.reset()


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Package, list[int]]:
    """A decoder, and the tokens that torch generates by its module."""
    example = torch.tensor([[1]]), torch.tensor([0])
    module, program = torch_states.seeded(torch_states.Decoder, *example)
    package = arm_ext.compile(program, output=tmp_path_factory.mktemp("decoder") / "p").package
    tokens = [1]
    with torch.no_grad():
        for place in range(TOKENS):
            logits = module(torch.tensor([tokens[-1:]]), torch.tensor([place]))
            tokens.append(int(logits.argmax()))
    assert len(set(tokens)) > 3
    return package, tokens[1:]


def test_a_decoder_with_a_cache_generates_what_torch_does(decoder: tuple[Package, list[int]], board: Board):
    package, wanted = decoder
    assert len(package.manifest.states) == 2 * torch_states.LAYERS
    model, tokens = board.load(package.so), [1]
    for place in range(TOKENS):
        (logits,) = model.step([np.array([tokens[-1:]]), np.array([place])])
        tokens.append(int(logits.argmax()))
    assert tokens[1:] == wanted


@pytest.mark.long  # of a package under the stock wheel one step is run in test_stock_wheel
@stock_only
def test_a_decoder_generates_under_the_stock_wheel(decoder: tuple[Package, list[int]]):
    package, wanted = decoder
    cpu = package.manifest.target.qemu_cpu
    assert cpu is not None
    out = stock_python().run(GENERATE, [package.so, str(TOKENS)], cpu=cpu)
    assert out.splitlines() == [" ".join(map(str, wanted))] * 2


def test_run_checks_steps(tmp_path: Path):
    proto = state_models.int8_accumulator()
    package = arm_ext.compile(proto, output=tmp_path / "p", state={"sum": "sum_out"}).package
    main, steps = run.run(package, check=True).checks
    assert steps.name == "sum_out of 4 steps, reset, 1 step"
    assert main.passed
    assert steps.passed
    selftest = package.selftest()
    selftest.steps[2][0][0, 0] += 1
    selftest.save(package.path / "selftest.npz")
    files = list_files(package.path)  # what is read has to be what the manifest lists
    package = Package(package.path, package.manifest.model_copy(update={"files": files}))
    assert [check.passed for check in run.run(package, check=True).checks] == [True, False]
