# SPDX-License-Identifier: Apache-2.0
import sys

import pytest

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.ethosu.options import Names, NpuOptions, require_packages

NAMES = Names(
    kinds={"conv2d", "softmax"},
    nodes={"stem": "Conv", "body": "Conv", "conv2d/x": "Relu", "probs": "Softmax"},
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ((), set()),
        (("conv2d",), {"conv2d"}),
        (("stem", "softmax"), {"stem", "softmax"}),
        (("Conv",), {"stem", "body"}),
    ],
)
def test_a_name_is_a_kind_a_node_or_an_operator_of_the_model(given: tuple[str, ...], meant: set[str]):
    assert NAMES.resolve("--cpu-ops", given) == meant


def test_an_unknown_name_is_answered_with_near_ones():
    with pytest.raises(
        UsageError, match=r"--npu-ops: the model has no operator 'conv2'; did you mean .*conv2d"
    ):
        NAMES.resolve("--npu-ops", ["softmax", "conv2"])


@pytest.mark.parametrize("name", ["conv", "CONV"])
def test_a_part_of_an_operators_name_is_answered_with_the_operators(name: str):
    with pytest.raises(UsageError, match=r"did you mean Conv or conv2d\?"):
        NAMES.resolve("--npu-ops", [name])


def test_a_name_near_none_does_not_list_thousands_of_nodes():
    with pytest.raises(UsageError, match=r"no operator 'zzzz'; report\.json"):
        NAMES.resolve("--cpu-ops", ["zzzz"])


@pytest.mark.parametrize("clock", ["cpu_mhz", "npu_mhz"])
def test_a_clock_is_above_zero(clock: str):
    with pytest.raises(UsageError, match=f"--{clock.replace('_', '-')} 0: expected a finite clock"):
        NpuOptions("ethos-u55-128", **{clock: 0.0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "package"), [("ethosu", "ethos-u-vela"), ("tosa_serializer", "tosa-tools")]
)
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, module: str, package: str):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EnvError, match=rf"needs {package}, .* pip install 'tvm-arm-ext\[npu\]'"):
        require_packages()
