# SPDX-License-Identifier: Apache-2.0
import re

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules import generic
from schedules.cores import A64, X86_64
from tests.schedules.generic.operators import CASES, F32, arguments, lowered, run
from tests.schedules.programs import NEON, assembly, model_so

# Sums of up to 100 terms in another order, and polynomials of a few units in the last place of binary32 (2**-24).
BOUND = {"float32": 2e-6, "float16": 0.0}


@pytest.mark.parametrize("name", CASES)
def test_computes_what_the_loops_compute(name):
    function, inputs = CASES[name]
    func = lowered(function, *inputs)
    scheduled = generic.schedule(func, X86_64)
    assert "unscheduled" not in scheduled.done
    expected, actual = (each[len(inputs) :] for each in run([func, scheduled.func], arguments(func)))
    for e, a in zip(expected, actual, strict=True):
        bound = BOUND.get(str(e.dtype), 0.0) * np.abs(e).max() if e.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, e, rtol=0, atol=bound)


@T.prim_func(private=True, s_tir=True)
def threads_of_its_own(x: T.Buffer((9,), "float32"), y: T.Buffer((9,), "float32")):
    for i in T.parallel(9):
        with T.sblock("copy"):
            v = T.axis.spatial(9, i)
            y[v] = x[8 - v]


def test_what_it_cannot_read_stays_as_it_is():
    scheduled = generic.schedule(threads_of_its_own, X86_64)
    assert scheduled.func.same_as(threads_of_its_own)
    assert scheduled.done == "unscheduled: a loop that is parallel, annotated or of symbolic extent"


ON_BOARD = (
    *(
        "add 31",
        "bias",
        "gelu",
        "softmax",
        "layer norm",
        "sum of bytes",
        "argmax",
        "max pool",
        "transpose of bytes",
    ),
    *(
        "transpose heads",
        "image",
        "image out",
        "concat rows",
        "pad",
        "gather",
        "resize",
        "conv",
        "quantize",
        "one hot",
    ),
    *("every second of bytes", "maxima of pairs", "reversed 31", "reversed bytes"),
)


@pytest.mark.isa("dotprod")
def test_computes_the_same_on_a_board(board, tmp_path):
    calls, expected = [], []
    for name in ON_BOARD:
        function, inputs = CASES[name]
        func = lowered(function, *inputs)
        values = arguments(func)
        ((*_, output),) = run([func], values)
        scheduled = generic.schedule(func, A64).func.with_attr("global_symbol", "f")
        calls.append((scheduled, values[:-1], output.shape, str(output.dtype)))
        expected.append(output)
    so = model_so(tmp_path / "model.so", calls, {**NEON, "mcpu": "cortex-a76", "mattr": []})
    actual = board.load(so).run([value for _, values, _, _ in calls for value in values])
    for name, e, a in zip(ON_BOARD, expected, actual, strict=True):
        bound = BOUND.get(str(e.dtype), 0.0) * np.abs(e).max() if e.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, e, rtol=0, atol=bound, err_msg=name)


def test_what_silu_has_twice_is_not_stored_between():
    func = lowered(CASES["silu of a product"][0], *CASES["silu of a product"][1])
    assert generic.schedule(func, X86_64).done == "vectors of 8"


def test_bfloat16_is_left_to_tvm():
    func = lowered(lambda x: op.multiply(x, x), ((5, 9), "bfloat16"))
    assert generic.schedule(func, X86_64).done == "unscheduled: bfloat16"


def test_a_reshape_stays_as_it_is_for_the_memory_planner():
    func = lowered(lambda x: op.reshape(x, (5, 3, 3)), ((5, 9), F32))
    assert generic.schedule(func, X86_64).func.same_as(func)


def test_a_function_of_one_input_passes_the_memory_planner():
    func = generic.schedule(lowered(op.exp, ((5, 9), F32)), X86_64).func
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((5, 9), F32))
    with builder.function("main", [x]):
        with builder.dataflow():
            gvar = builder.add_func(func, "exp")
            out = builder.emit_output(relax.call_tir(gvar, [x], relax.TensorType((5, 9), F32)))
        builder.emit_func_output(out)
    relax.transform.RewriteDataflowReshape()(builder.get())


VECTORISED = (
    *(
        "bias",
        "gelu",
        "log",
        "softmax",
        "layer norm",
        "mean of channels",
        "max pool",
        "transpose",
        "concat",
        "quantize",
    ),
)

# LLVM unrolls short rows, and then keeps more loop-invariant vectors than there are registers.
MANY_CONSTANTS = {"bias", "softmax", "layer norm", "concat"}


@pytest.mark.parametrize("name", VECTORISED)
def test_innermost_loops_compute_in_vectors_and_registers(name):
    function, inputs = CASES[name]
    # Long enough for loops.
    wide = [(tuple(dim * 8 if dim > 1 else dim for dim in shape), dtype) for shape, dtype in inputs]
    scheduled = generic.schedule(lowered(function, *wide), A64)
    code = _code(assembly(scheduled.func.with_attr("global_symbol", "f"), NEON))
    found = _innermost_loops(code)
    assert found
    for loop in found:
        assert any(re.search(r"\.(16b|8h|4s|2d)|\bq\d", line) for line in loop), loop
        stack = [line for line in loop if re.search(r"\bq\d+.*\[sp", line)]
        assert not stack or name in MANY_CONSTANTS, stack
    assert not any(re.search(r"\b(exp|erf|tanh|log)f\b", line) for line in code), "a call a lane"


def _code(asm: str) -> list[str]:
    """What computes: the functions f_compute_ and, of its parallel loops, __tvm_parallel_lambda."""
    lines, inside = [], False
    for line in (line.strip() for line in asm.splitlines()):
        if line.endswith(":") and not line.startswith("."):
            inside = line.startswith(("f_compute_", "__tvm_parallel_lambda"))
        if inside and line and not line.startswith((".loc", ".Ltmp", ".cfi", "//")):
            lines.append(line)
    return lines


def _innermost_loops(code: list[str]) -> list[list[str]]:
    """Instructions from a label to a branch back to it, with no other label between."""
    found, label, body = [], "", []
    for line in code:
        if line.endswith(":"):
            label, body = line[:-1], []
            continue
        body.append(line)
        if label and re.match(r"(b\.|cbn?z|tbn?z)", line) and line.split()[-1] == label:
            found.append(body)
            label = ""
    return found


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (op.add, lambda n: (((n, 1001), F32), ((n, 1001), F32))),
        # No axis but the two.
        (op.permute_dims, lambda n: (((3, n * 301), F32),)),
    ],
)
def test_large_functions_are_spread_over_threads_and_small_ones_are_not(function, shapes):
    big, small = (lowered(function, *shapes(n)) for n in (4000, 4))
    assert "T.parallel" in generic.schedule(big, X86_64).func.script()
    assert "T.parallel" not in generic.schedule(small, X86_64).func.script()


def test_the_estimate_counts_once_what_is_the_same_for_all_channels():
    def resize(x: relax.Expr) -> relax.Expr:
        return op.image.resize2d(
            x, (128, 128), layout="NHWC", method="linear", coordinate_transformation_mode="half_pixel"
        )

    scheduled = generic.schedule(lowered(resize, ((1, 64, 64, 16), F32)), A64)
    # Of an emulated run: 1.25 cycles an element on neoverse-n2, the indices of a pixel included.
    assert scheduled.cycles is not None
    assert 1 < scheduled.cycles / (128 * 128 * 16) < 4


@pytest.mark.parametrize(
    ("function", "shape", "measured"),
    [
        (lambda x: op.mean(x, axis=[-1]), (64, 256), 2356),
        (lambda x: op.max(x, axis=[-1]), (64, 256), 2194),
        (lambda x: op.mean(x, axis=[0]), (256, 64), 2123),
        (lambda x: op.nn.log_softmax(x, axis=-1), (64, 128), 32566),
        (lambda x: op.nn.avg_pool2d(x, (3, 3), padding=(1, 1), layout="NHWC"), (1, 32, 32, 32), 123121),
    ],
)
def test_estimates_of_reductions_are_near_those_of_their_instructions(function, shape, measured):
    """Against llvm-mca's cycles of an emulated run on neoverse-n2; a window's count of elements is computed once."""
    scheduled = generic.schedule(lowered(function, (shape, F32)), A64)
    assert scheduled.cycles == pytest.approx(measured, rel=0.25)
