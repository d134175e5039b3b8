# SPDX-License-Identifier: Apache-2.0
from functools import partial

import pytest
import tvm
from tvm import tirx
from tvm_ffi import structural_hash

from arm_ext.api import digits
from arm_ext.common.cache import without_entries
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.kernel_cache import BODY, KernelCache
from arm_ext.pipeline.memory import memory_of
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, run_phases
from arm_ext.target.profiles import resolve
from schedules.composites.vocabulary import LINEAR
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES
from schedules.kernels.common.threads import is_divided
from schedules.kernels.gemm import gemm_f32
from schedules.select import select
from tests.arm_ext.models import residual_cnn

MODELS = {
    "residual_cnn": residual_cnn,
    "digits_fp32": lambda: digits.model_path("fp32"),
    "digits_int8": lambda: digits.model_path("int8"),
}


def _kernels(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    return {g.name_hint: func for g, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}


@pytest.mark.parametrize("target", ["neoverse-n2", "cortex-a53"])
@pytest.mark.parametrize("name", MODELS)
def test_completed_kernels_are_those_of_phases_without_stubs(name: str, target: str):
    start = PhaseResult(import_onnx(MODELS[name]()).mod)
    options = PhaseOptions(resolve(target))
    whole = dict(run_phases(start, options))
    for kernel_cache in (KernelCache(), KernelCache()):  # the second finds the first one's in the cache
        found = dict(run_phases(start, PhaseOptions(resolve(target), kernel_cache=kernel_cache)))
        kernels, expected = _kernels(found["plan"].mod), _kernels(whole["plan"].mod)
        assert kernels.keys() == expected.keys()
        assert any(BODY in func.attrs for func in kernels.values())
        for symbol, func in kernels.items():
            tvm.ir.assert_structural_equal(kernel_cache.completed(func), expected[symbol])
            assert is_divided(func) == is_divided(expected[symbol])
        memory = memory_of(found["lower"].mod, found["plan"].mod, kernel_cache)
        assert memory == memory_of(whole["lower"].mod, whole["plan"].mod)


@pytest.mark.parametrize("size", [8, 256])
def test_a_stub_knows_whether_threads_divide_its_calls(size: int):
    a, b = Operand((size, size), "float32", "input", 0), Operand((size, size), "float32", "constant", 0)
    workload, on = (
        Workload(LINEAR.name, (a, b), (), (), a.shape, "float32"),
        resolve("cortex-a76").tvm_target(),
    )
    params = gemm_f32.default(workload, CORES["cortex-a76"])
    stub = KernelCache().stub(gemm_f32.NAME, workload, params, on)
    assert (
        is_divided(stub) == is_divided(gemm_f32.build(workload, params)) == params.parallel == (size == 256)
    )


def test_a_stub_holds_what_is_allocated_and_no_more():
    kernel_cache = KernelCache()
    options = PhaseOptions(resolve("neoverse-n2"), kernel_cache=kernel_cache)
    results = dict(run_phases(PhaseResult(import_onnx(digits.model_path("fp32")).mod), options))
    stubs = [func for func in _kernels(results["plan"].mod).values() if BODY in func.attrs]
    assert stubs
    for func in stubs:
        assert 10 * len(tvm.ir.save_json(func)) < len(tvm.ir.save_json(kernel_cache.completed(func)))


@pytest.mark.parametrize("without", [(), (gemm_f32.NAME,)])
def test_a_cached_choice_equals_the_one_made(without: tuple[str, ...]):
    operands = (Operand((8, 31), "float32", "input", 0), Operand((31, 9), "float32", "constant", 0))
    workload = Workload(LINEAR.name, operands, (), (), (8, 9), "float32")
    core = CORES["neoverse-n2"]
    for _ in range(2):
        assert KernelCache().select(workload, core, without) == select(workload, core, without=without)


def test_bodies_are_the_same_if_they_are_equal_not_if_their_hashes_are():
    pairs = [(first, second) for first in range(12) for second in range(12)]
    hashes = {pair: structural_hash(_of_two_numbers(*pair)) for pair in pairs}
    assert len(set(hashes.values())) < len(pairs)
    with without_entries():
        kernel_cache = KernelCache()
        for pair in pairs:
            for name in (f"{pair}", f"{pair} again"):
                kernel_cache._bodies[name] = partial(_of_two_numbers, *pair)
                assert kernel_cache._first_alike(name, hashes[pair]) == f"{pair}"


def _of_two_numbers(first: int, second: int) -> tirx.PrimFunc:
    body = [tirx.Evaluate(tirx.IntImm("int32", number)) for number in (first, second)]
    return tirx.PrimFunc([tirx.Var("p", "handle")], tirx.SeqStmt(body))
