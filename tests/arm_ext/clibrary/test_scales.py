# SPDX-License-Identifier: Apache-2.0
"""Scales of quantised inputs and outputs: read from models, and told by libraries."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser

from arm_ext.clibrary.scales import Scale, scales_of
from arm_ext.frontends.onnx.importer import import_onnx
from tests.arm_ext.clibrary.programs import STRICT, Library, cc, python_module, run

_HEAD = '<ir_version: 9, opset_import: ["" : 17]> '
_QUANTISED = """g (int8[2,7] x, float[2,7] plain) => (uint8[2,7] y, float[2,7] z)
<float a = {0.1}, int8 b = {-3}, float c = {0.02}, uint8 d = {131}>
{ f = DequantizeLinear(x, a, b) z = Add(f, plain) h = Sqrt(f) y = QuantizeLinear(h, c, d) }"""


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(_HEAD + text)


def scales(text: str, tmp_path: Path) -> tuple[list[Scale], list[Scale]]:
    onnx.save(model_of(text), tmp_path / "model.onnx")
    return scales_of(import_onnx(tmp_path / "model.onnx").mod)


def test_inputs_that_are_dequantised_and_outputs_that_are_quantised_have_scales(tmp_path: Path) -> None:
    tenth, fiftieth = (float(np.float32(value)) for value in (0.1, 0.02))
    inputs, outputs = scales(_QUANTISED, tmp_path)
    assert inputs == [Scale(tenth, -3), Scale()]
    assert outputs == [Scale(fiftieth, 131), Scale()]


def test_an_input_that_is_read_in_two_ways_has_no_scale(tmp_path: Path) -> None:
    text = """g (int8[2,7] x) => (float[2,7] y) <float a = {0.1}, float c = {0.2}, int8 b = {0}>
    { f = DequantizeLinear(x, a, b) h = DequantizeLinear(x, c, b) y = Add(f, h) }"""
    assert scales(text, tmp_path) == ([Scale()], [Scale()])
    inputs, _ = scales(text.replace("(x, c, b)", "(x, a, b)"), tmp_path)
    assert inputs == [Scale(float(np.float32(0.1)), 0)]


def test_a_scale_for_each_channel_is_none_of_the_tensor(tmp_path: Path) -> None:
    text = """g (int8[2,2] x) => (float[2,2] y) <float[2] a = {0.1, 0.2}, int8[2] b = {0, 0}>
    { y = DequantizeLinear<axis = 1>(x, a, b) }"""
    assert scales(text, tmp_path)[0] == [Scale()]


_PROGRAM = """#include "scaled.h"

_Static_assert(SCALED_INPUT_X_TYPE == SCALED_INT8 && SCALED_OUTPUT_Y_TYPE == SCALED_UINT8, "");
static const size_t shape[] = SCALED_INPUT_X_SHAPE;

int main(void)
{
    const scaled_tensor *x = scaled_input_tensor(SCALED_INPUT_X), *plain = scaled_input_tensor(SCALED_INPUT_PLAIN);
    const scaled_tensor *y = scaled_output_tensor(SCALED_OUTPUT_Y);
    if (x->shape[0] != shape[0] || x->shape[1] != shape[1]) {
        return 2;
    }
    return x->scale == 0.1f && x->zero_point == -3 && SCALED_INPUT_X_SCALE == 0.1f && SCALED_INPUT_X_ZERO_POINT == -3 &&
                   y->scale == 0.02f && y->zero_point == 131 && SCALED_OUTPUT_Y_SCALE == 0.02f &&
                   SCALED_OUTPUT_Y_ZERO_POINT == 131 && plain->scale == 0 && plain->zero_point == 0
               ? 0
               : 1;
}
"""


def test_a_library_tells_scales_as_constants_and_in_its_tables(tmp_path: Path) -> None:
    library = Library.of(model_of(_QUANTISED), tmp_path / "scaled", "host", name="scaled")
    (tmp_path / "scales.c").write_text(_PROGRAM)
    run(cc([*STRICT, tmp_path / "scales.c", *library.arguments], tmp_path / "program"))
    assert "PLAIN_SCALE" not in (library.folder / "include" / "scaled.h").read_text()
    tenth, fiftieth = (float(np.float32(value)) for value in (0.1, 0.02))
    assert python_module(library, tmp_path)["SCALES"] == {"x": (tenth, -3), "y": (fiftieth, 131)}
    rust = (library.folder / "rust" / "src" / "scaled.rs").read_text()
    assert "pub const INPUT_X_SCALE: f32 = 0.1;\npub const INPUT_X_ZERO_POINT: i32 = -3;\n" in rust
    assert "    pub scale: f32,\n    pub zero_point: i32,\n" in rust
