# SPDX-License-Identifier: Apache-2.0
"""Values beyond memory, and windows beyond their image, which MLIR's verifier lets pass."""

import pytest

from arm_ext.common.errors import ArmExtError, ModelError
from arm_ext.frontends.common.limits import MOST_NESTED, MOST_ROUNDS
from arm_ext.frontends.stablehlo.importer import import_stablehlo


def program(operator: str, inputs: list[str], result: str, attributes: str = "") -> bytes:
    arguments = ", ".join(f"%a{k}: tensor<{ty}>" for k, ty in enumerate(inputs))
    operands, types = (
        ", ".join(texts)
        for texts in ([f"%a{k}" for k in range(len(inputs))], [f"tensor<{ty}>" for ty in inputs])
    )
    return (
        f"module {{ func.func public @main({arguments}) -> tensor<{result}> {{\n"
        f'  %r = "stablehlo.{operator}"({operands}) {attributes} : ({types}) -> tensor<{result}>\n'
        f"  return %r : tensor<{result}>\n}} }}"
    ).encode()


def conv(window: str, result: str) -> bytes:
    types = "(tensor<1x8x8x4xf32>, tensor<3x3x4x4xf32>)"
    return (
        "module { func.func public @main(%a: tensor<1x8x8x4xf32>, %w: tensor<3x3x4x4xf32>) -> "
        f"tensor<{result}xf32> {{\n  %r = stablehlo.convolution(%a, %w) "
        f"dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{{window}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : {types} -> tensor<{result}xf32>\n"
        f"  return %r : tensor<{result}xf32>\n}} }}"
    ).encode()


def pads(low: int) -> str:
    none = "edge_padding_high = array<i64: 0, 0>, interior_padding = array<i64: 0, 0>"
    return f"{{edge_padding_low = array<i64: {low}, 0>, {none}}}"


CASES = {
    "input": (program("abs", ["4611686018427387904x4xf32"], "4611686018427387904x4xf32"), "takes 64 EiB"),
    "pad": (program("pad", ["2x3xf32", "f32"], "1099511627778x3xf32", pads(2**40)), "takes 12 TiB"),
    "iota": (program("iota", [], "1099511627776xf32", "{iota_dimension = 0 : i64}"), "takes 4 TiB"),
    "broadcast": (
        program(
            "broadcast_in_dim", ["3xf32"], "1099511627776x3xf32", "{broadcast_dimensions = array<i64: 1>}"
        ),
        "takes 12 TiB",
    ),
    "padded": (conv("pad = [[1073741824, 0], [0, 0]]", "1x1073741830x6x4"), "takes 96 GiB"),
    "window": (conv("pad = [[-3, -3], [0, 0]]", "1x0x6x4"), r"\[1, 0, 6, 4\], and must be without 0"),
}


@pytest.mark.parametrize("case", CASES)
def test_beyond_limits(case: str):
    text, says = CASES[case]
    with pytest.raises(ModelError, match=f"stablehlo.* node 'line 2'.*{says}"):
        import_stablehlo(text, "m")


@pytest.mark.parametrize(
    "window", ["stride = [0, 0]", "rhs_dilate = [0, 0]", "lhs_dilate = [0, 0]", "stride = [-1, -1]"]
)
def test_what_mlir_refuses(window: str):
    with pytest.raises(ArmExtError, match="expects window to have positive"):
        import_stablehlo(conv(window, "1x6x6x4"), "m")


def while_program(first: int, bound: int, direction: str = "LT", step: int = 1) -> bytes:
    """A loop that counts from one number to another and doubles its argument."""
    return f"""module {{ func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %z = stablehlo.constant dense<{first}> : tensor<i64>
  %r:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i64>, tensor<4xf32>
    cond {{
      %n = stablehlo.constant dense<{bound}> : tensor<i64>
      %p = stablehlo.compare {direction}, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<{step}> : tensor<i64>
      %j = stablehlo.add %i, %one : tensor<i64>
      %b = stablehlo.add %a, %a : tensor<4xf32>
      stablehlo.return %j, %b : tensor<i64>, tensor<4xf32>
    }}
  return %r#1 : tensor<4xf32>
}} }}""".encode()


@pytest.mark.parametrize(
    "program",
    [while_program(0, 2**62), while_program(5, -(2**40), "GT", -3), while_program(0, MOST_ROUNDS + 1)],
    ids=["up", "down", "one more"],
)
def test_a_loop_of_more_rounds_than_can_be_run(program: bytes):
    with pytest.raises(ModelError, match=f"stablehlo.while node.*more than {MOST_ROUNDS} iterations"):
        import_stablehlo(program, "m")


@pytest.mark.parametrize(
    "program",
    [while_program(2**62 - 10, 2**62), while_program(0, 100_000), while_program(0, 2, "NE", 1)],
    ids=["few from far", "at run time", "not a bound"],
)
def test_a_loop_of_fewer(program: bytes):
    import_stablehlo(program, "m")


def ifs(depth: int) -> bytes:
    text = "%v0 = stablehlo.cosine %x : tensor<4xf32>"
    for k in range(1, depth + 1):
        text = (
            f'%v{k} = "stablehlo.if"(%c) ({{\n{text}\nstablehlo.return %v{k - 1} : tensor<4xf32>\n}}, {{\n'
            f"stablehlo.return %x : tensor<4xf32>\n}}) : (tensor<i1>) -> tensor<4xf32>"
        )
    types = "%x: tensor<4xf32>, %c: tensor<i1>"
    return (
        f"module {{ func.func public @main({types}) -> tensor<4xf32> {{\n{text}\n"
        f"return %v{depth} : tensor<4xf32>\n}} }}"
    ).encode()


def test_branches_inside_each_other():
    import_stablehlo(ifs(MOST_NESTED - 1), "m")
    for depth in (MOST_NESTED + 1, 200):
        with pytest.raises(ModelError, match=f"stablehlo.if node .* nested more than {MOST_NESTED} deep"):
            import_stablehlo(ifs(depth), "m")


def test_sizes_that_follow_from_data_are_refused_with_advice():
    text = """
    func.func @main(%n: tensor<1xi64>) -> tensor<f32> {
      %rows = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
      return %sum : tensor<f32>
    }"""
    with pytest.raises(
        ModelError, match=r"dynamic_iota \(1x\): line 3\n\s+a size of .*jax\.export\.symbolic_shape"
    ):
        import_stablehlo(text.encode(), "m")
