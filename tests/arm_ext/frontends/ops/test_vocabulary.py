# SPDX-License-Identifier: Apache-2.0
"""One table of operators, written in each model format: all formats give the defined values."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import numpy as np
import onnx
import pytest
import torch
import tvm
from onnx import helper, numpy_helper
from tvm import relax
from tvm_ffi import structural_equal

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.export import to_onnx
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.frontends.stablehlo.importer import import_stablehlo
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.ir.sources import bindings_of
from tests.arm_ext.frontends.ops.vocabulary_cases import FAMILIES, Case, Written
from tests.arm_ext.frontends.stablehlo.models import text
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.torch.compared import Function

_OPSET = 20


def _named(written: Written) -> tuple[str, dict[str, object], list[np.ndarray], list[np.ndarray]]:
    """Return name, attributes, and the constant inputs before and after the operands of an operator."""
    name, attributes = (written, {}) if isinstance(written, str) else written
    attributes = dict(attributes)
    before, after = (attributes.pop(key, []) for key in ("before", "inputs"))
    return name, attributes, before, after


def _kind(array: np.ndarray) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def onnx_model(cases: list[Case]) -> ImportedModel:
    nodes, inputs, outputs, constants = [], [], [], []
    for k, case in enumerate(cases):
        operator, attributes, _, more = _named(case.onnx)
        taken, held = (
            [f"{letter}{k}_{i}" for i in range(len(values))]
            for letter, values in (("x", case.values), ("c", more))
        )
        nodes.append(helper.make_node(operator, [*taken, *held], [f"y{k}"], name=case.name, **attributes))
        constants += [numpy_helper.from_array(value, name) for name, value in zip(held, more, strict=True)]
        inputs += [
            helper.make_tensor_value_info(name, _kind(value), value.shape)
            for name, value in zip(taken, case.values, strict=True)
        ]
        wanted = case.expected()
        outputs.append(helper.make_tensor_value_info(f"y{k}", _kind(wanted), wanted.shape))
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return import_onnx(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)
    )


def torch_model(cases: list[Case]) -> ImportedModel:
    counts = [len(case.values) for case in cases]

    def function(*given: torch.Tensor) -> list[torch.Tensor]:
        rest = iter(given)
        return [case.torch(*(next(rest) for _ in range(n))) for case, n in zip(cases, counts, strict=True)]

    # Example values that no division of torch ends the process with.
    examples = tuple(torch.from_numpy(np.ones_like(value)) for case in cases for value in case.values)
    return import_torch(torch.export.export(Function(function).eval(), examples))


def _held(m: TfliteBuilder, constants: list[np.ndarray]) -> list[int]:
    return [m.hold(value, value.dtype.name) for value in constants]


def tflite_model(cases: list[Case]) -> ImportedModel:
    m = TfliteBuilder()
    outputs = []
    for case in cases:
        operator, options, first, more = _named(case.tflite)
        wanted = case.expected()
        outputs.append(m.tensor(wanted.dtype.name, *wanted.shape))
        taken = [m.take(value.dtype.name, *value.shape) for value in case.values]
        m.op(operator, [*_held(m, first), *taken, *_held(m, more)], outputs[-1:], **options)
    with TemporaryDirectory() as folder:
        path = Path(folder, "m.tflite")
        path.write_bytes(m.build(*outputs))
        return import_tflite(path)


def stablehlo_model(cases: list[Case]) -> ImportedModel:
    def function(*given: jax.Array) -> list[jax.Array]:
        rest = iter(given)
        return [case.stablehlo(*(next(rest) for _ in case.values)) for case in cases]

    with jax.enable_x64(True):
        return import_stablehlo(text(function, [value for case in cases for value in case.values]), "m")


FORMATS: dict[str, Callable[[list[Case]], ImportedModel]] = {
    "onnx": onnx_model,
    "stablehlo": stablehlo_model,
    "tflite": tflite_model,
    "torch": torch_model,
}
CASES = {case.name: (family, case) for family, cases in FAMILIES.items() for case in cases}


def formats_of(case: Case) -> list[str]:
    """Return the formats that have the operator of a case."""
    return [name for name in FORMATS if getattr(case, name) is not None]


def written_alike(case: Case) -> list[str]:
    """Return the formats that have one operator for a case."""
    return [name for name in formats_of(case) if name not in case.composed.split()]


def written_in(family: str, name: str) -> list[Case]:
    """Return the cases of a family that a format has an operator for."""
    return [case for case in FAMILIES[family] if getattr(case, name) is not None]


@functools.cache
def model_of(family: str, name: str) -> ImportedModel:
    """Return a format's model of all operators of a family that it has."""
    return FORMATS[name](written_in(family, name))


@functools.cache
def results(family: str, name: str) -> dict[str, np.ndarray]:
    """Return the values that a format's model of a family computes."""
    cases = written_in(family, name)
    found = run_on_host(model_of(family, name).mod, [value for case in cases for value in case.values])
    return dict(zip((case.name for case in cases), found, strict=True))


@functools.cache
def forms(family: str, name: str) -> dict[str, tvm.IRModule]:
    """Return the canonical Relax of each case of a format's model, as a module of its own."""
    mod = canonicalize(model_of(family, name).mod)
    main = mod["main"]
    bindings = bindings_of(main)
    bound = {binding.var: binding.value for binding in bindings}
    result = bound.get(main.body.body, main.body.body)
    fields = list(result.fields) if isinstance(result, relax.Tuple) else [result]
    params, modules = iter(main.params), {}
    for case, field in zip(written_in(family, name), fields, strict=True):
        own, needed = [next(params) for _ in case.values], {field}
        for binding in reversed(bindings):
            if binding.var in needed:
                needed.update(relax.analysis.free_vars(binding.value))
        block = relax.DataflowBlock([binding for binding in bindings if binding.var in needed])
        func = relax.Function(own, relax.SeqExpr([block], field), field.ty).with_attr("global_symbol", "main")
        modules[case.name] = relax.transform.DeadCodeElimination()(_with_kernels(func, mod))
    return modules


def _with_kernels(main: relax.Function, mod: tvm.IRModule) -> tvm.IRModule:
    return tvm.IRModule(
        {**{var: func for var, func in mod.functions.items() if var.name_hint != "main"}, "main": main}
    )


@pytest.mark.parametrize("case", [name for name, (_, case) in CASES.items() if len(written_alike(case)) > 1])
def test_all_formats_give_the_same_relax(case: str):
    family, row = CASES[case]
    first, *others = written_alike(row)
    for other in others:
        one, two = (forms(family, name)[case] for name in (first, other))
        assert structural_equal(one, two), f"{first}:\n{one.script()}\n{other}:\n{two.script()}"


def test_every_operator_is_written_in_a_format_and_once():
    assert len(CASES) == sum(map(len, FAMILIES.values()))
    single = [
        case.name for _, case in CASES.values() if sum(getattr(case, f) is not None for f in FORMATS) == 0
    ]
    assert not single


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=f"{name}-{case}")
        for name in FORMATS
        for case, (family, _) in CASES.items()
        if getattr(CASES[case][1], name) is not None
    ],
)
def test_values(name: str, case: str):
    family, row = CASES[case]
    found, wanted = results(family, name)[case], row.expected()
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    wrong = [
        f"{case}({', '.join(str(x[k]) for x in row.values)}) is {found[k]}, and {wanted[k]} is defined"
        for k in np.ndindex(*wanted.shape)
        if not _is_right(found[k], wanted[k], row)
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {wanted.size} values:", *wrong[:8]])


_NOT_IN_ONNX = {
    *("pad_edge[float32]", "pad_reflect[float32]", "pad_wrap[float32]"),
    *("sort[float32]", "argsort[float32]", "largest[float32]", "atan2[float32]"),
}
"""Float operators for which canonical Relax has a kernel of TVM's, which is not written as ONNX."""


@pytest.mark.parametrize("case", [name for name in CASES if "[float32]" in name])
def test_relax_written_as_onnx_computes_the_same(case: str):
    _, row = CASES[case]
    name = (written_alike(row) or formats_of(row))[0]
    # onnxruntime ignores NaN in maxima, and converts numbers that are too large in another way.
    values = [np.clip(np.nan_to_num(x), -100, 100) if x.dtype.kind == "f" else x for x in row.values]
    model = FORMATS[name]([row])
    if case in _NOT_IN_ONNX:
        node = "line" if name == "stablehlo" else re.escape(case)
        with pytest.raises(ModelError, match=rf"not written as ONNX: .*\({node}"):
            to_onnx(model)
        return
    proto = to_onnx(model)
    onnx.checker.check_model(proto, full_check=True)
    (found,) = run_onnxruntime(proto.SerializeToString(), values, integers=False)
    (ours,) = run_on_host(model.mod, values)
    assert (found.dtype, found.shape) == (ours.dtype, ours.shape)
    # Both compute functions such as exp by approximations of their own.
    np.testing.assert_allclose(found, ours, rtol=1e-4, atol=1e-5)


def _is_right(found: np.generic, wanted: np.generic, row: Case) -> bool:
    if wanted.dtype.kind != "f" or not np.isfinite(wanted) or row.ulps < 0:
        return np.array_equal(found, wanted, equal_nan=wanted.dtype.kind == "f")
    least = float(np.finfo(wanted.dtype).tiny)
    bound = row.ulps * 2.0**-24 * abs(float(wanted)) + row.atol + least
    return abs(float(found) - float(wanted)) <= bound
