# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.frontends.torch.expression import is_expression

_S = "Symbol('s38', positive=True, integer=True)"


@pytest.mark.parametrize(
    "text",
    [
        "s0",
        "2*s0 + 3",
        "-(s1 // 2)",
        "s0 <= 512",
        _S,
        f"Mul(Integer(2), {_S})",
        f"Add(Integer(-1), FloorDiv({_S}, Integer(2)))",
        f"Pow({_S}, Integer(2))",
        f"Mul({_S}, Pow(Integer(8), Integer(-1)))",
        f"Eq({_S}, Integer(3))",
        "Float('0.5', precision=53)",
        "true",
    ],
)
def test_arithmetic_of_sizes(text: str) -> None:
    assert is_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "open('/tmp/x', 'w')",
        "__import__('os').system('true')",
        "s0.__class__",
        "Symbol(open('/tmp/x', 'w'))",
        "Symbol('s0); open('x')')",
        "Symbol('open')",
        "Add('open(1)', 1)",
        "Float('open(1)')",
        "Symbol('s0', positive=open('x'))",
        "exec",
        "lambda: 1",
        "[s0 for s0 in s1]",
        "f'{s0}'",
        "s0 if s1 else s2",
        "9**9**9",
        "Pow(Pow(2, 64), 64)",
        "2**s0",
        "2**1000",
        "sympify('open(1)')",
        "s0\nopen('x')",
        "1" * 40,
        "(" * 5000 + "s0" + ")" * 4999,
        "+".join(["s0"] * 5000),
    ],
)
def test_anything_else(text: str) -> None:
    assert not is_expression(text)
