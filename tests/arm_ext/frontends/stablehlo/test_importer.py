# SPDX-License-Identifier: Apache-2.0
"""StableHLO programs against XLA."""

import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, export, lax

from arm_ext.common.errors import EnvError, ModelError, UsageError
from arm_ext.frontends import load
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.load import import_model
from arm_ext.frontends.stablehlo import module
from arm_ext.frontends.stablehlo.importer import import_stablehlo
from arm_ext.pipeline.selftest import module_runner, run_on_host
from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.ir.sources import unnamed_calls
from tests.arm_ext.frontends.stablehlo.cases import CASES
from tests.arm_ext.frontends.stablehlo.models import bytecode, exported, text
from tests.fuzz.stablehlo_files import QUANTIZED
from tests.relay_passes.graphs import operators

# Relative to the greatest: sums in another order, and other polynomials for exponentials and angles.
BOUNDS = {"float32": 2e-6, "float16": 2e-3}


def check(imported: ImportedModel, *given: list[np.ndarray]) -> None:
    """Compile a program once, and run it on each of the given inputs."""
    run = module_runner(imported.mod)
    for inputs in given:
        _compare(imported, inputs, run(inputs))


def _compare(imported: ImportedModel, inputs: list[np.ndarray], found: list[np.ndarray]) -> None:
    expected, runtime = imported.reference(inputs)
    assert runtime.startswith("XLA of jax ")
    assert len(found) == len(expected) == len(imported.outputs)
    for k, (ours, wanted, spec) in enumerate(zip(found, expected, imported.outputs, strict=True)):
        assert (
            (ours.shape, str(ours.dtype)) == (wanted.shape, str(wanted.dtype)) == (spec.shape, spec.dtype)
        ), k
        if wanted.dtype.kind != "f":
            assert np.array_equal(ours, wanted), k
            continue
        finite = np.isfinite(wanted)
        assert np.array_equal(ours[~finite], wanted[~finite], equal_nan=True), k
        error = np.abs(ours[finite].astype(float) - wanted[finite])
        assert error.max() <= BOUNDS[str(wanted.dtype)] * np.abs(wanted[finite]).max(), k


# Bytecode has the names of operators; text has CHLO's operators, which are taken apart in bytecode.
TEXT = ("inexact", "inverse", "sorts", "half", "rest")


# Some hundred calls each.
LONG = ("inverse",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in CASES])
def test_operators(name: str):
    function, values = CASES[name]
    imported = import_stablehlo((text if name in TEXT else bytecode)(function, values), name)
    assert unnamed_calls(imported.mod) == []
    check(imported, list(values))


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_operators_in_the_other_form(name: str):
    function, values = CASES[name]
    check(import_stablehlo((bytecode if name in TEXT else text)(function, values), name), list(values))


# The others are run on a board, and compared with what the host makes of them.
@pytest.mark.parametrize("name", ["lstm", "mlp"])
def test_models(name: str):
    imported = import_model(exported(name))
    assert (imported.format, [x.name for x in imported.inputs]) == ("stablehlo", ["x"])
    check(imported, random_inputs(imported.inputs))


# What JAX writes out is one operator each once more, and biases stand where kernels take them in.
RECOGNIZED = {
    "cnn": {
        "nn.conv2d": 3, "add": 4, "nn.relu": 1, "clip": 1, "nn.max_pool2d": 1, "nn.silu": 1, "nn.avg_pool2d": 1,
        "mean": 1, "reshape": 1, "matmul": 1,
    },
    "transformer": {
        "nn.layer_norm": 2, "matmul": 8, "add": 8, "reshape": 4, "permute_dims": 4, "where": 1, "nn.softmax": 1,
        "nn.gelu": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", RECOGNIZED)
def test_operators_that_are_written_out_are_recognised(name: str):
    found = Counter(operators(canonicalize(import_model(exported(name)).mod)["main"]))
    assert found == RECOGNIZED[name]


def double(x: Any) -> Any:
    return x @ np.ones((3, 2), np.float32) * 2


X = np.ones((4, 3), np.float32)


@pytest.mark.parametrize(
    "made",
    [
        lambda: bytecode(double, [X]),
        lambda: text(double, [X]),
        lambda: b"// a comment\n\n#loc = loc(unknown)\n" + text(double, [X]),
        lambda: bytes(export.export(jax.jit(double))(X).serialize()),
    ],
    ids=["bytecode", "text", "text-after-comments", "serialized"],
)
def test_a_file_is_found_by_content(tmp_path: Path, made: Callable[[], bytes]):
    (tmp_path / "model.bin").write_bytes(made())
    imported = import_model(tmp_path / "model.bin")
    assert (imported.format, imported.name, imported.outputs[0].shape) == ("stablehlo", "model", (4, 2))


def test_a_loop_fills_its_results_at_once():
    def function(x: Any) -> Any:
        return jax.lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(3), x)

    found = Counter(operators(canonicalize(import_stablehlo(bytecode(function, [X]), "m").mod)["main"]))
    assert (found["multiply"], found["concat"]) == (4, 1)


def test_nodes_are_named_by_location_or_line():
    named = import_stablehlo(bytecode(double, [X]), "m").nodes
    assert named["jit(double)/dot_general"] == "stablehlo.dot_general"
    by_line = import_stablehlo(text(double, [X]), "m").nodes
    lines = text(double, [X]).decode().splitlines()
    assert by_line
    assert all(op in lines[int(name.split()[1]) - 1] for name, op in by_line.items())


def test_names_are_unique():
    nodes = import_stablehlo(bytecode(lambda x: (x + 1) + (x + 2), [X]), "m").nodes
    assert len([name for name, op in nodes.items() if op == "stablehlo.add" and "/add" in name]) == 3


def program(body: str, arguments: str = "%x: tensor<2x3xf32>", result: str = "tensor<2x3xf32>") -> bytes:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}".encode()


def test_unsupported_operators_are_listed():
    body = """
      %a = stablehlo.custom_call @other(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %b = stablehlo.custom_call @other(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("here")
      %c = stablehlo.custom_call @my_kernel(%b) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %d = stablehlo.complex %b, %c : tensor<2x3xcomplex<f32>>
      %f = stablehlo.tanh %d : tensor<2x3xcomplex<f32>>
      %e = stablehlo.real %f : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
      return %e : tensor<2x3xf32>"""
    with pytest.raises(ModelError) as error:
        import_stablehlo(program(body), "m")
    message = str(error.value)
    for line in (
        "custom_call @other (2x): line 3, here",
        "custom_call @my_kernel (1x)",
        "stablehlo.tanh of tensor<2x3xcomplex<f32>>",
    ):
        assert line in message


RANDOM = """
  %s = stablehlo.constant dense<0> : tensor<2xui64>
  %k, %r = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3xui32>)
  %f = stablehlo.convert %r : (tensor<2x3xui32>) -> tensor<2x3xf32>
  return %f : tensor<2x3xf32>"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_nan_has_the_place_that_jax_gives_it(dtype: str):
    def function(x: Array) -> list[Array]:
        extremes = x.argmax(-1), x.argmin(-1), x.max(-1), jnp.median(x, -1), jnp.nanmax(x, -1)
        return [*lax.top_k(x, 5), jnp.sort(x, -1), jnp.argsort(x, -1, descending=True), *extremes]

    nan = np.nan
    rows = [
        [-0.0, nan, 2, -np.inf, 0.0, -nan, 3],
        [nan, -1, -nan, 1, nan, 0, 7],
        [0, -0.0, 1, -1, 0.0, 5, -5],
    ]
    x = np.array(rows).astype(np.dtype(dtype))
    model = import_stablehlo(bytecode(function, [x]), "m")
    for found, value in zip(run_on_host(model.mod, [x]), function(jnp.asarray(x)), strict=True):
        wanted = np.asarray(value)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.astype(float), wanted.astype(float))


def _sorted_by(comparison: str, dtype: str, before: str = "") -> bytes:
    of = f"(tensor<{dtype}>, tensor<{dtype}>)"
    return program(
        f"""
  %s = "stablehlo.sort"(%x) <{{dimension = 0 : i64, is_stable = true}}> ({{
    ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>):
      {before}
      %r = stablehlo.compare {comparison} : {of} -> tensor<i1>
      stablehlo.return %r : tensor<i1>
  }}) : (tensor<8x{dtype}>) -> tensor<8x{dtype}>
  %t = stablehlo.compare LT, %x, %s, TOTALORDER : (tensor<8x{dtype}>, tensor<8x{dtype}>) -> tensor<8xi1>
  return %s, %t : tensor<8x{dtype}>, tensor<8xi1>""",
        f"%x: tensor<8x{dtype}>",
        f"(tensor<8x{dtype}>, tensor<8xi1>)",
    )


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "f64"])
def test_a_total_order_has_places_for_the_signs_of_nan_and_zero(dtype: str):
    kind = np.dtype({"bf16": "bfloat16"}.get(dtype, dtype.replace("f", "float")))
    ascending = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan]).astype(kind)
    bits = f"u{kind.itemsize}"
    shuffled = ascending[[3, 7, 1, 4, 0, 6, 2, 5]]
    for direction, wanted in (("LT", ascending), ("GT", ascending[::-1])):
        model = import_stablehlo(_sorted_by(f"{direction}, %a, %b, TOTALORDER", dtype), "m")
        found, less = run_on_host(model.mod, [shuffled])
        np.testing.assert_array_equal(found.view(bits), wanted.view(bits))
        ranks = np.array([3, 7, 1, 4, 0, 6, 2, 5])
        np.testing.assert_array_equal(
            less, ranks < (np.arange(8) if direction == "LT" else np.arange(8)[::-1])
        )


@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_a_comparator_of_magnitudes_is_refused(dtype: str):
    magnitudes = "".join(f"%{x}{x} = stablehlo.abs %{x} : tensor<{dtype}>\n" for x in "ab")
    text = _sorted_by("LT, %aa, %bb", dtype, magnitudes)
    if dtype == "i32":
        text = text.replace(b"TOTALORDER", b"SIGNED")
    with pytest.raises(ModelError, match="by an unsupported comparison"):
        import_stablehlo(text, "m")


def test_random_numbers_are_refused():
    with pytest.raises(ModelError, match=r"stablehlo\.rng_bit_generator \(1x\)"):
        import_stablehlo(program(RANDOM), "m")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (
            lambda x: jax.lax.reduce(x, np.float32(0), lambda a, b: a * b + a, (0,)),
            "by a custom function",
        ),
        (
            lambda x: jax.lax.sort((x, x, x, x), num_keys=4)[0],
            "it sorts 4 tensors by an unsupported comparison",
        ),
    ],
)
def test_what_cannot_be_imported_is_named(function: Callable[..., Any], reason: str):
    with pytest.raises(ModelError, match=rf"stablehlo\.\w+ node '.+' cannot be imported: .*{reason}"):
        import_stablehlo(bytecode(function, [X]), "m")


def test_dynamic_dimensions_take_a_shape():
    rows, columns = export.symbolic_shape("rows, columns")
    function = jax.jit(lambda x: jax.nn.softmax(jnp.concatenate([x, x], 0)).reshape(-1))
    data = export.export(function)(jax.ShapeDtypeStruct((rows, columns), np.float32)).mlir_module_serialized
    with pytest.raises(UsageError, match=r"arg0: \[\?,\?\]    e\.g\. --shape arg0=1,1"):
        import_stablehlo(data, "m")
    with pytest.raises(UsageError, match=r"--shape arg0=7 does not fit the model's \[\?,\?\]"):
        import_stablehlo(data, "m", {"arg0": (7,)})
    with pytest.raises(UsageError, match=r"names no input: z\. The inputs are: arg0"):
        import_stablehlo(data, "m", {"z": (7, 3)})
    imported = import_stablehlo(data, "m", {"arg0": (3, 5)})
    assert imported.outputs[0].shape == (30,)
    check(imported, random_inputs(imported.inputs))


def test_sizes_that_constants_tell_are_static():
    program = """
    func.func @main(%x: tensor<3x4xf32>) -> (tensor<i32>, tensor<4xf32>) {
      %0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<3x4xf32>) -> tensor<i32>
      %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
      %2 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<1xi32>) -> tensor<4xf32>
      return %0, %2 : tensor<i32>, tensor<4xf32>
    }"""
    imported = import_stablehlo(program.encode(), "sizes.mlir")
    size, places = run_on_host(imported.mod, random_inputs(imported.inputs))
    assert size == 4
    np.testing.assert_array_equal(places, np.arange(4))


def test_elements_at_the_ends_of_their_types():
    """Of StableHLO's own tests: XLA writes out what of these it is given by JAX."""
    program = """
    func.func @main(%b: tensor<4xi1>, %c: tensor<4xi1>, %n: tensor<4xui32>, %x: tensor<4xf32>)
        -> (tensor<4xi1>, tensor<4xi1>, tensor<4xui32>, tensor<4xf32>, tensor<4xi1>) {
      %0 = stablehlo.multiply %b, %c : tensor<4xi1>
      %1 = stablehlo.compare GT, %b, %c, UNSIGNED : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
      %2 = stablehlo.negate %n : tensor<4xui32>
      %3 = stablehlo.sign %x : tensor<4xf32>
      %4 = stablehlo.compare NE, %x, %x, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      return %0, %1, %2, %3, %4 : tensor<4xi1>, tensor<4xi1>, tensor<4xui32>, tensor<4xf32>, tensor<4xi1>
    }"""
    b, c = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    n, x = np.array([0, 1, 65536, 2**32 - 1], np.uint32), np.array([-2, np.nan, 0, np.inf], np.float32)
    found = run_on_host(import_stablehlo(program.encode(), "ends.mlir").mod, [b, c, n, x])
    for value, wanted in zip(found, (b & c, b > c, -n, np.sign(x), np.isnan(x)), strict=True):
        np.testing.assert_array_equal(value, wanted, strict=True)


def test_powers_of_integers_are_exact():
    program = """
    func.func @main(%x: tensor<4xi64>, %n: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>) {
      %0 = stablehlo.power %x, %n : tensor<4xi64>
      %c = stablehlo.constant dense<3> : tensor<4xi64>
      %1 = stablehlo.power %x, %c : tensor<4xi64>
      return %0, %1 : tensor<4xi64>, tensor<4xi64>
    }"""
    x, n = np.array([7, 3, -3, 2**20 + 1], np.int64), np.array([20, 39, 35, 3], np.int64)
    found, cubed = run_on_host(import_stablehlo(program.encode(), "powers.mlir").mod, [x, n])
    assert found.tolist() == [7**20, 3**39, (-3) ** 35, (2**20 + 1) ** 3]
    assert cubed.tolist() == [7**3, 27, -27, (2**20 + 1) ** 3]


def test_quantised_types_become_qdq():
    imported = import_stablehlo(QUANTIZED, "m")
    assert imported.quantized
    x = np.array([[0.5, -1, 2], [3, 0.1, -6]], np.float32)
    (found,) = run_on_host(imported.mod, [x])
    q = np.clip(np.round(x / np.float32(0.05)) + 3, -128, 127) - 3
    w = np.array([[1, -2], [3, 4], [-5, 127]]) * [0.5, 0.25]
    expected = (np.clip(np.round(q * 0.05 @ w / 0.5) - 1, -128, 127) + 1) * 0.5
    assert np.array_equal(found, expected.astype(np.float32))


def test_quantised_sums_are_int32():
    """As StableHLO quantises a product: its sums have a type of their own, and are quantised again."""
    i8, i32 = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i32:f32, 0.125>"
    narrow = "!quant.uniform<i8:f32, 2.0:-1>"
    program = f"""
    func.func @main(%x: tensor<3x7x{i8}>) -> (tensor<3x2x{i32}>, tensor<3x2x{narrow}>, tensor<3x2xf32>) {{
      %w = stablehlo.constant dense<WEIGHTS> : tensor<7x2xf32>
      %0 = stablehlo.uniform_quantize %w : (tensor<7x2xf32>) -> tensor<7x2x!quant.uniform<i8:f32, 0.25>>
      %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
        : (tensor<3x7x{i8}>, tensor<7x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x2x{i32}>
      %2 = stablehlo.uniform_quantize %1 : (tensor<3x2x{i32}>) -> tensor<3x2x{narrow}>
      %3 = stablehlo.uniform_dequantize %1 : (tensor<3x2x{i32}>) -> tensor<3x2xf32>
      return %1, %2, %3 : tensor<3x2x{i32}>, tensor<3x2x{narrow}>, tensor<3x2xf32>
    }}"""
    rng = np.random.default_rng(0)
    x, w = rng.integers(-128, 128, (3, 7)).astype(np.int8), rng.integers(-127, 128, (7, 2))
    text = program.replace("WEIGHTS", str((w / 4).tolist())).encode()
    sums, requantised, real = run_on_host(import_stablehlo(text, "sums.mlir").mod, [x])
    wanted = (x.astype(int) - 3) @ w
    np.testing.assert_array_equal(sums, wanted.astype(np.int32), strict=True)
    np.testing.assert_array_equal(requantised, np.clip(np.round(wanted / 16) - 1, -128, 127))
    np.testing.assert_array_equal(real, wanted / 8)


def test_constants_of_all_forms():
    body = """
      %a = stablehlo.constant dense_resource<blob> : tensor<3xf32>
      %b = stablehlo.constant dense<[1.5, 0x7F80, -2.0]> : tensor<3xbf16>
      %c = stablehlo.convert %b : (tensor<3xbf16>) -> tensor<3xf32>
      %d = stablehlo.maximum %a, %c : tensor<3xf32>
      return %d : tensor<3xf32>
    }
    {-# dialect_resources: { builtin: { blob: "0x040000000000803F00000040000000C0" } } #-}"""
    data = b"module {\n" + program(body, "", "tensor<3xf32>")[:-1] + b"\n"
    data = data.replace(b"\n    }\n    {-#", b"\n    }\n}\n    {-#")
    (found,) = run_on_host(import_stablehlo(data, "m").mod, [])
    assert found.tolist() == [1.5, np.inf, -2.0]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: bytecode(double, [X])[:300], r"attempting to parse \d+ bytes when only"),
        (lambda: b"module { func.func @main() { stablehlo.foo } }", "custom op 'stablehlo.foo' is unknown"),
        (lambda: program("return %y : tensor<2x3xf32>"), "use of undeclared SSA value name"),
        (lambda: b"module {}", "there is no function 'main'; its functions: none"),
    ],
)
def test_damaged_programs_are_refused(
    made: Callable[[], bytes], reason: str, capfd: pytest.CaptureFixture[str]
):
    data = made()
    with pytest.raises(UsageError, match=reason):
        import_stablehlo(data, "m")
    # MLIR's own messages are part of ours.
    assert capfd.readouterr() == ("", "")


def test_only_a_process_of_its_own_reads_bytecode(monkeypatch: pytest.MonkeyPatch):
    data = bytecode(double, [X])
    monkeypatch.setattr(module.stablehlo, "deserialize_portable_artifact", None)
    (found,) = run_on_host(import_stablehlo(data, "m").mod, [X])
    np.testing.assert_array_equal(found, double(X))


def test_bytecode_that_ends_the_reader_is_refused(monkeypatch: pytest.MonkeyPatch):
    killed = subprocess.CompletedProcess([], -signal.SIGSEGV)
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: killed)
    with pytest.raises(UsageError, match="its bytecode is damaged: MLIR crashes when reading it"):
        import_stablehlo(bytecode(double, [X]), "m")


def test_recursion_is_refused():
    body = "%y = call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\nreturn %y : tensor<2x3xf32>"
    with pytest.raises(ModelError, match="function 'main' calls itself"):
        import_stablehlo(program(body), "m")


def test_without_jaxlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "m.mlir").write_bytes(text(double, [X]))
    monkeypatch.setattr(load.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvError, match=r"pip install 'tvm-arm-ext\[stablehlo\]'"):
        import_model(tmp_path / "m.mlir")


def test_tensors_beyond_memory_are_refused():
    body = """
      %c = stablehlo.constant dense<1.0> : tensor<1099511627776xf32>
      %s = stablehlo.slice %c [0:6] : (tensor<1099511627776xf32>) -> tensor<6xf32>
      %y = stablehlo.reshape %s : (tensor<6xf32>) -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>"""
    with pytest.raises(ModelError, match=r"stablehlo\.slice node 'line 4': a value of it .* takes 4 TiB"):
        import_stablehlo(program(body), "m")


def test_what_an_unrolled_loop_stacks_is_computed_with():
    def function(x):
        _, rows = lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(3), x)
        return jnp.where(x > 0, rows, 1.0), rows * 2 + x, -rows

    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    check(import_stablehlo(text(function, [x]), "m"), [x])
