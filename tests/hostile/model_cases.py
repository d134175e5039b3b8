# SPDX-License-Identifier: Apache-2.0
"""Models that are damaged, contradict themselves, or have odd names, in every format."""

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.hostile.case import DONE, FINDING, REFUSED, USAGE, Case, asset, both, cases
from tests.hostile.models import (
    FLOAT,
    bytes_replaced,
    changed,
    constant,
    cut,
    fifo,
    folder,
    link,
    node,
    put,
    relu,
    saved,
)

HOST = ("--target", "host")
_RUN = ("compile", "m.onnx", *HOST)
_ANY = frozenset({DONE, FINDING, USAGE})
_PACKAGE = ("m.armpkg", "m.armpkg/*")


def _edited(
    edit: Callable[[onnx.ModelProto], object], base: Callable[[], onnx.ModelProto] = relu
) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        model = base()
        edit(model)
        return model

    return make


def _external(**fields: str) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        weight = TensorProto(name="w", data_type=FLOAT, dims=[1, 8], data_location=TensorProto.EXTERNAL)
        for key, value in fields.items():
            weight.external_data.add(key=key, value=value)
        return relu([node("Add", ["x", "w"], ["y"])], weights=[weight])

    return make


def _m(make: object, says: str, **more: object) -> tuple[object, ...]:
    return _RUN, says, {"make": make if not isinstance(make, onnx.ModelProto) else saved(make), **more}


def _g(
    nodes: list[onnx.NodeProto], says: str = r"m", fields: dict[str, object] | None = None, **more: object
) -> tuple[object, ...]:
    return _RUN, says, {"make": saved(lambda: relu(nodes, **more)), **(fields or {})}


_OKS = {"exits": frozenset({DONE}), "writes": _PACKAGE}
_MAY = {"exits": _ANY, "writes": _PACKAGE}

STRUCTURE = cases(
    "compile/onnx",
    [
        ("cut-half", *_m(cut("mlp.onnx", "m.onnx", 0.5), r"m\.onnx|w")),
        ("cut-one-byte", *_m(cut("mlp.onnx", "m.onnx", 0.9999), r"m\.onnx", **_MAY)),
        ("no-graph", *_m(saved(lambda: onnx.ModelProto(ir_version=9)), r"m\.onnx|graph")),
        ("no-nodes", *_g([], r"y", outputs=("y",))),
        ("no-outputs", *_g([node("Relu", ["x"], ["y"])], r"output", outputs=(), shapes=())),
        ("no-inputs", *_g([node("Relu", ["w"], ["y"])], r"input", _MAY, names=(), weights=(constant("w", np.ones((1, 8)), "float32"),))),
        ("input-undefined", *_g([node("Add", ["x", "nope"], ["y"])], r"nope")),
        ("output-undefined", *_g([node("Relu", ["x"], ["z"])], r"y")),
        ("cycle", *_g([node("Add", ["x", "y"], ["z"], "a"), node("Relu", ["z"], ["y"])], r"y|z|cycle")),
        ("self-cycle", *_g([node("Add", ["x", "y"], ["y"])], r"y|add")),
        ("assigned-twice", *_g([node("Relu", ["x"], ["y"], "a"), node("Neg", ["x"], ["y"], "b")], r"y")),
        ("node-writes-input", *_g([node("Relu", ["x"], ["x"])], r"x", outputs=("x",))),
        ("node-writes-weight", *_g([node("Relu", ["x"], ["w"]), node("Add", ["x", "w"], ["y"])], r"w", weights=(constant("w", np.ones((1, 8)), "float32"),))),
        ("input-is-output", *_g([], r"x", _MAY, outputs=("x",))),
        ("weight-is-output", *_g([], r"w", _MAY, outputs=("w",), weights=(constant("w", np.ones((1, 8)), "float32"),))),
        ("output-twice", *_g([node("Relu", ["x"], ["y"])], r"y", _MAY, outputs=("y", "y"))),
        ("inputs-of-one-name", *_g([node("Relu", ["x"], ["y"])], r"x", names=("x", "x"))),
        ("weight-twice", *_g([node("Add", ["x", "w"], ["y"])], r"w", weights=(constant("w", np.ones((1, 8)), "float32"), constant("w", np.zeros((1, 8)), "float32")))),
        ("input-unused", *_g([node("Relu", ["x"], ["y"])], r"", _OKS, names=("x", "z"))),
        ("opset-0", *_m(saved(lambda: relu(opset=0)), r"opset|version")),
        ("opset-7", *_m(saved(lambda: relu(opset=7)), r"opset", **_MAY)),
        ("opset-999", *_m(saved(lambda: relu(opset=999)), r"opset", **_MAY)),
        ("opset-negative", *_m(saved(lambda: relu(opset=-1)), r"opset|version")),
        ("no-opset", *_m(saved(_edited(lambda m: m.ClearField("opset_import"))), r"opset", **_MAY)),
        ("two-opsets", *_m(saved(_edited(lambda m: m.opset_import.add(domain="", version=9))), r"opset", **_MAY)),
        ("ir-version-0", *_m(saved(_edited(lambda m: m.ClearField("ir_version"))), r"ir|IR", **_MAY)),
        ("ir-version-9999", *_m(saved(lambda: relu(ir=9999)), r"IR|ir_version|version", **_MAY)),
        ("unknown-operator", *_g([node("Frob", ["x"], ["y"])], r"Frob", {"exits": frozenset({FINDING})})),
        ("operator-empty", *_g([node("", ["x"], ["y"], "nothing")], r"nothing|operator", {"exits": REFUSED})),
        ("operator-escape", *_g([node("\x1b[2JFrob", ["x"], ["y"])], r"Frob", {"exits": REFUSED, "never": "\x1b\\[2J"})),
        ("domain-unknown", *_g([node("Relu", ["x"], ["y"], domain="acme")], r"acme", {"exits": REFUSED})),
        ("too-few-inputs", *_g([node("Add", ["x"], ["y"])], r"add|Add", {"exits": REFUSED})),
        ("too-many-inputs", *_g([node("Relu", ["x", "x", "x"], ["y"])], r"relu|Relu", {"exits": REFUSED})),
        ("operand-empty", *_g([node("Relu", [""], ["y"])], r"relu|Relu", {"exits": REFUSED})),
        ("no-node-outputs", *_g([node("Relu", ["x"], [])], r"relu|y", {"exits": REFUSED})),
        ("attribute-missing", *_g([node("Concat", ["x", "x"], ["y"])], r"concat", {"exits": REFUSED}, shapes=((2, 8),))),
        ("attribute-type", *_g([node("Concat", ["x", "x"], ["y"], axis=0.0)], r"concat", {"exits": REFUSED}, shapes=((2, 8),))),
        ("attribute-string", *_g([node("Softmax", ["x"], ["y"], axis="last")], r"softmax", {"exits": REFUSED})),
        ("attribute-twice", *_m(saved(_edited(lambda m: m.graph.node[0].attribute.extend([helper.make_attribute("alpha", 0.1), helper.make_attribute("alpha", 0.2)]), lambda: relu([node("LeakyRelu", ["x"], ["y"])]))), r"alpha", **_MAY)),
        ("attribute-unknown", *_g([node("Relu", ["x"], ["y"], frob=1)], r"frob", _MAY)),
        ("attribute-without-value", *_m(saved(_edited(lambda m: m.graph.node[0].attribute.add(name="axis"), lambda: relu([node("Softmax", ["x"], ["y"])]))), r"softmax", **_MAY)),
        ("axis-outside", *_g([node("Softmax", ["x"], ["y"], axis=7)], r"softmax", {"exits": REFUSED})),
        ("transpose-repeats", *_g([node("Transpose", ["x"], ["y"], perm=[0, 0])], r"transpose", {"exits": REFUSED})),
        ("raw-data-short", *_m(saved(_edited(lambda m: setattr(m.graph.initializer[0], "raw_data", b"123"), lambda: relu([node("Add", ["x", "w"], ["y"])], weights=(constant("w", np.ones((1, 8)), "float32"),)))), r"\bw\b", exits=REFUSED)),
        ("raw-data-long", *_m(saved(_edited(lambda m: setattr(m.graph.initializer[0], "raw_data", b"1" * 400), lambda: relu([node("Add", ["x", "w"], ["y"])], weights=(constant("w", np.ones((1, 8)), "float32"),)))), r"\bw\b", exits=REFUSED)),
        ("weight-no-type", *_m(saved(_edited(lambda m: m.graph.initializer.add(name="w"), lambda: relu([node("Add", ["x", "w"], ["y"])]))), r"\bw\b", exits=REFUSED)),
        ("weight-type-99", *_m(saved(_edited(lambda m: m.graph.initializer.add(name="w", data_type=99, dims=[8], raw_data=b"1" * 32), lambda: relu([node("Add", ["x", "w"], ["y"])]))), r"\bw\b", exits=REFUSED)),
        ("weight-dims-negative", *_m(saved(_edited(lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[-8], raw_data=b"1" * 32), lambda: relu([node("Add", ["x", "w"], ["y"])]))), r"\bw\b|add")),
        ("weight-dims-huge", *_m(saved(_edited(lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[1 << 40, 1 << 40]), lambda: relu([node("Add", ["x", "w"], ["y"])]))), r"w", exits=REFUSED)),
        ("weight-strings", *_m(saved(_edited(lambda m: m.graph.initializer.add(name="w", data_type=8, dims=[1], string_data=[b"a"]), lambda: relu([node("Add", ["x", "w"], ["y"])]))), r"w|string", exits=REFUSED)),
        ("weight-both-data", *_m(saved(_edited(lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=b"1" * 8, float_data=[1, 2, 3]), lambda: relu([node("Add", ["x", "w"], ["y"])]))), r"w", exits=REFUSED)),
        ("weight-unnamed", *_m(saved(_edited(lambda m: m.graph.initializer.add(data_type=1, dims=[2], raw_data=b"1" * 8))), r"", **_MAY)),
        ("weight-nan", *_g([node("MatMul", ["x", "w"], ["y"])], r"w|NaN", _MAY, weights=(constant("w", np.full((8, 8), np.nan), "float32"),))),
        ("sparse-weight", *_m(saved(_edited(lambda m: m.graph.sparse_initializer.add(dims=[1, 8]))), r"sparse|values", **_MAY)),
        ("input-no-type", *_m(saved(_edited(lambda m: m.graph.input[0].ClearField("type"))), r"x")),
        ("input-no-shape", *_g([node("Relu", ["x"], ["y"])], r"x", shape=None)),
        ("input-strings", *_g([node("Relu", ["x"], ["y"])], r"x|string", {"exits": REFUSED}, kind=TensorProto.STRING)),
        ("input-complex", *_g([node("Relu", ["x"], ["y"])], r"x|complex", {"exits": REFUSED}, kind=TensorProto.COMPLEX64)),
        ("input-float8", *_g([node("Relu", ["x"], ["y"])], r"x|float8|relu", {"exits": REFUSED}, kind=TensorProto.FLOAT8E4M3FN)),
        ("input-int4", *_g([node("Identity", ["x"], ["y"])], r"x|int4", _MAY, kind=TensorProto.INT4)),
        ("input-type-1234", *_m(saved(_edited(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 1234))), r"x")),
        ("input-sequence", *_m(saved(_edited(lambda m: m.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", FLOAT, [1])))), r"x", exits=REFUSED)),
        ("input-empty", *_g([node("Relu", ["x"], ["y"])], r"x|0", _MAY, shape=(0, 8))),
        ("input-negative", *_g([node("Relu", ["x"], ["y"])], r"x", shape=(-1, 8))),
        ("input-rank-100", *_g([node("Relu", ["x"], ["y"])], r"x|rank|relu|axes", _MAY, shape=(1,) * 100)),
        ("output-shape-wrong", *_g([node("Relu", ["x"], ["y"])], r"y", _MAY, shapes=((3, 4),))),
        ("output-type-wrong", *_m(saved(_edited(lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 7))), r"y", **_MAY)),
        ("types-differ", *_g([node("Add", ["x", "w"], ["y"])], r"add", {"exits": REFUSED}, weights=(constant("w", np.ones(8), "int64"),))),
        ("if-no-branches", *_g([node("If", ["c"], ["y"])], r"if", {"exits": REFUSED}, weights=(constant("c", True, "bool"),))),
        ("loop-no-body", *_g([node("Loop", ["", "c", "x"], ["y"])], r"loop", {"exits": REFUSED}, weights=(constant("c", True, "bool"),))),
        ("function-unused", *_m(saved(_edited(lambda m: m.functions.add(name="f", domain="acme"))), r"", **_MAY)),
        ("doc-not-utf8", *_m(bytes_replaced(saved(_edited(lambda m: setattr(m, "doc_string", "QQQQ"))), "m.onnx", b"QQQQ", b"\xff\xfe\xfd\xfc"), r"m\.onnx", **_MAY)),
        ("metadata-huge", *_m(saved(_edited(lambda m: m.metadata_props.add(key="k", value="v" * 20_000_000))), r"", **_OKS)),
        ("json-of-onnx", *_m(lambda work: put("m.onnx", onnx.printer.to_text(relu()))(work), r"m\.onnx")),
        ("gzip", *_m(lambda work: put("m.onnx", gzip.compress(relu().SerializeToString()))(work), r"m\.onnx")),
        ("tflite-named-onnx", *_m(cut("relu.tflite", "m.onnx", 1), r"m\.onnx|TFLite", **_MAY)),
        ("git-lfs-pointer", *_m(put("m.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"), r"m\.onnx")),
        ("html", *_m(put("m.onnx", "<!DOCTYPE html><html>404</html>"), r"m\.onnx")),
    ],
)  # fmt: skip

EXTERNAL = cases(
    "compile/external-data",
    [
        ("missing", *_m(saved(_external(location="w.bin")), r"w\.bin")),
        ("outside", *_m(both(saved(_external(location="../w.bin"), "d/m.onnx"), put("w.bin", b"1" * 32)), r"\.\./w\.bin", )),
        ("absolute", *_m(saved(_external(location="/etc/passwd")), r"/etc/passwd")),
        ("link-outside", *_m(both(saved(_external(location="w.bin")), link("w.bin", "/etc/passwd")), r"w\.bin")),
        ("folder", *_m(both(saved(_external(location="w.bin")), folder("w.bin")), r"w\.bin")),
        ("fifo", *_m(both(saved(_external(location="w.bin")), fifo("w.bin")), r"w\.bin", seconds=30)),
        ("device", *_m(both(saved(_external(location="w.bin")), link("w.bin", "/dev/zero")), r"w\.bin", seconds=30, memory=4 << 30)),
        ("no-location", *_m(saved(_external(offset="0")), r"w|location")),
        ("location-empty", *_m(saved(_external(location="")), r"w")),
        ("location-nul", *_m(saved(_external(location="w\0.bin")), r"w")),
        ("location-long", *_m(saved(_external(location="w" * 5000)), r"w")),
        ("short", *_m(both(saved(_external(location="w.bin")), put("w.bin", b"1" * 31)), r"\bw\b", exits=REFUSED)),
        ("offset-beyond", *_m(both(saved(_external(location="w.bin", offset="4096")), put("w.bin", b"1" * 64)), r"w")),
        ("offset-negative", *_m(both(saved(_external(location="w.bin", offset="-8")), put("w.bin", b"1" * 64)), r"w")),
        ("offset-letters", *_m(both(saved(_external(location="w.bin", offset="abc")), put("w.bin", b"1" * 64)), r"w")),
        ("offset-5000-digits", *_m(both(saved(_external(location="w.bin", offset="9" * 5000)), put("w.bin", b"1" * 64)), r"w")),
        ("length-negative", *_m(both(saved(_external(location="w.bin", length="-32")), put("w.bin", b"1" * 64)), r"w")),
        ("length-wrong", *_m(both(saved(_external(location="w.bin", length="16")), put("w.bin", b"1" * 64)), r"\bw\b", exits=REFUSED)),
        ("length-huge", *_m(both(saved(_external(location="w.bin", length=str(1 << 62))), put("w.bin", b"1" * 64)), r"w")),
        ("checksum-wrong", *_m(both(saved(_external(location="w.bin", checksum="0" * 40)), put("w.bin", b"1" * 32)), r"w", **_MAY)),
        ("unreadable", *_m(both(saved(_external(location="w.bin")), put("w.bin", b"1" * 32), lambda work: (work / "w.bin").chmod(0)), r"w\.bin")),
    ],
)  # fmt: skip
# The model of "outside" lies in a folder.
EXTERNAL = [
    item
    if item.id != "compile/external-data/outside"
    else Case(**{**item.__dict__, "argv": ("compile", "d/m.onnx", *HOST)})
    for item in EXTERNAL
]


def _named(tensor: str = "x", out: str = "y", name: str = "relu") -> object:
    return saved(lambda: relu([node("Relu", [tensor], [out], name)], names=(tensor,), outputs=(out,)))


NAMES = cases(
    "compile/tensor-names",
    [
        ("node-unnamed", *_m(_named(name=""), "", **_OKS)),
        ("nodes-of-one-name", *_g([node("Relu", ["x"], ["a"], "n"), node("Neg", ["a"], ["y"], "n")], "", _OKS)),
        ("newline", *_m(_named("a\nb", "c\nd", "e\nf"), r"control characters .*a\\u000ab")),
        ("newline-in-a-node", *_m(_named(name="e\nf"), "", **_OKS)),
        ("escape-codes", *_m(_named("\x1b[2Ja", "\x1b[2Jb", "\x1b[2Jc"), r"control characters", never="\x1b\\[2J")),
        ("escape-codes-in-a-node", *_m(_named(name="\x1b[2Jc"), "", **_OKS, never="\x1b\\[2J")),
        ("markup", *_m(_named("[red]x", "[/]y", "[bold]n[/bold]"), "", **_OKS, prints=r"\[red\]x")),
        ("unicode", *_m(_named("вход", "出口", "节点🦾"), "", **_OKS)),
        ("quotes", *_m(_named("a'b", 'c"d', "e\\f`g"), "", **_OKS)),
        ("format", *_m(_named("%s%n", "{0}", "{}"), "", **_OKS)),
        ("path", *_m(_named("../../x", "../../y", "/etc/z"), "", **_OKS)),
        ("empty-input", *_m(_named("", "y"), r"name|input")),
        ("100k", *_m(_named("x" * 100_000, "y" * 100_000, "n" * 100_000), r"a name of 100,000 characters")),
        ("100k-of-a-node", *_m(_named(name="n" * 100_000), "", **_OKS)),
        ("nul", *_m(_named("a\0b", "c\0d", "e\0f"), "", **_MAY)),
        ("keywords", *_m(_named("self", "return", "main"), "", **_OKS)),
        ("main-and-step", *_g([node("Relu", ["main"], ["a"], "step"), node("Neg", ["a"], ["reset"], "main")], "", _OKS, names=("main",), outputs=("reset",))),
        ("same-when-cleaned", *_g([node("Relu", ["a.b"], ["a_b"], "a.b"), node("Neg", ["a_b"], ["a/b"], "a_b")], "", _OKS, names=("a.b",), outputs=("a/b",))),
        ("not-utf8", *_m(bytes_replaced(_named("QQQQ"), "m.onnx", b"QQQQ", b"\xff\xfe\xfd\xfc"), r"\bm\b", **_MAY)),
        ("bidi", *_m(_named("\u202ex", "\u2066y", "\u200b"), r"control characters")),
        ("joiners", *_m(_named("x\u200cy", "a\u200db", "\u200b"), "", **_OKS)),
        ("lone-surrogate-option", (*_RUN, "--shape", "\udcff=1,8"), r"shape|input", {"make": _named()}),
        ("number-names", *_m(_named("0", "1", "2"), "", **_OKS)),
        ("dump-path-name", (*_RUN, "--dump-phases", "d"), "", {"make": _named("../x", "../y", "../../n"), **_OKS, "writes": (*_PACKAGE, "d", "d/*")}),
        ("save-node-path", (*_RUN, "--save-node", "../../n", "-o", "n.onnx"), "", {"make": _named(name="../../n"), "exits": frozenset({DONE}), "writes": ("n.onnx",)}),
        ("save-node-default-path", (*_RUN, "--save-node", "../../n"), "", {"make": _named(name="../../n"), "exits": frozenset({DONE, USAGE}), "writes": ("*.onnx",)}),
        ("unicode-in-ascii", _RUN, "", {"make": _named("вход", "出口", "节点🦾"), **_OKS, "fresh": True, "env": {"PYTHONIOENCODING": "ascii"}}),
        ("unicode-in-latin1", _RUN, "", {"make": _named("вход", "出口", "节点🦾"), **_OKS, "fresh": True, "env": {"PYTHONIOENCODING": "latin-1"}}),
        ("unicode-in-c", _RUN, "", {"make": _named("вход", "出口", "节点🦾"), **_OKS, "fresh": True, "env": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}}),
    ],
)  # fmt: skip


def _file(suffix: str, content: bytes | object, says: str = "", **more: object) -> tuple[object, ...]:
    make = put(f"m.{suffix}", content) if isinstance(content, bytes) else content
    return ("compile", f"m.{suffix}", *HOST), says or rf"m\.{suffix}|'t\d'", {"make": make, **more}


TFLITE = cases(
    "compile/tflite",
    [
        ("empty", *_file("tflite", b"")),
        ("text", *_file("tflite", b"hello world, this is no model")),
        ("identifier-alone", *_file("tflite", b"\x10\0\0\0TFL3")),
        ("identifier-other", *_file("tflite", changed("relu.tflite", "m.tflite", 4 / 700, b"\x01"), exits=REFUSED)),
        ("identifier-missing", *_file("tflite", lambda work: _bytes(work / "m.tflite", 4, b"XXXX"))),
        ("root-outside", *_file("tflite", lambda work: _bytes(work / "m.tflite", 0, b"\xff\xff\xff\x7f"))),
        ("root-negative", *_file("tflite", lambda work: _bytes(work / "m.tflite", 0, b"\xff\xff\xff\xff"))),
        ("zeros", *_file("tflite", b"\x10\0\0\0TFL3" + bytes(4000))),
        ("ones", *_file("tflite", b"\x10\0\0\0TFL3" + b"\xff" * 4000)),
        *((f"cut-{keep}", *_file("tflite", cut("relu.tflite", "m.tflite", keep / 10))) for keep in (3, 6, 9)),
        ("tensor-outside", *_file("tflite", lambda work: _tflite(work, operator=[99]), exits=REFUSED)),
        ("tensor-minus-2", *_file("tflite", lambda work: _tflite(work, operator=[-2]), exits=REFUSED)),
        ("buffer-outside", *_file("tflite", lambda work: _tflite(work, buffer=77), exits=REFUSED)),
        ("no-graphs", *_file("tflite", lambda work: _tflite(work, graphs=0), exits=REFUSED)),
        ("shape-negative", *_file("tflite", lambda work: _tflite(work, shape=[-5, 8]), exits=REFUSED)),
        ("shape-huge", *_file("tflite", lambda work: _tflite(work, shape=[2**31 - 1] * 4), r"\bt0\b", exits=REFUSED)),
        ("type-unknown", *_file("tflite", lambda work: _tflite(work, type=99), exits=REFUSED)),
        ("code-outside", *_file("tflite", lambda work: _tflite(work, opcode=5), exits=REFUSED)),
        ("custom", *_file("tflite", lambda work: _tflite(work, custom=True), r"Frob|custom|CUSTOM", exits=REFUSED)),
        ("no-inputs", *_file("tflite", lambda work: _tflite(work, inputs=[]), exits=frozenset({DONE, FINDING, USAGE}), writes=_PACKAGE)),
        ("not-utf8-name", *_file("tflite", lambda work: _tflite(work, name=b"\xff\xfe"), "", exits=_ANY, writes=_PACKAGE)),
    ],
    never=r"unpack_from|has no attribute|has no value",
)  # fmt: skip


def _bytes(path: Path, at: int, data: bytes) -> None:
    content = bytearray(asset("relu.tflite").read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def _tflite(work: Path, *, graphs: int = 1, custom: bool = False, **change: object) -> None:
    from ai_edge_litert import schema_py_generated as schema

    from tests.arm_ext.frontends.tflite.builder import pack

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(asset("relu.tflite").read_bytes(), 0))
    graph = model.subgraphs[0]
    operator, tensor = graph.operators[0], graph.tensors[0]
    operator.inputs = change.get("operator", operator.inputs)
    operator.opcodeIndex = change.get("opcode", operator.opcodeIndex)
    tensor.shape = change.get("shape", tensor.shape)
    tensor.type = change.get("type", tensor.type)
    tensor.buffer = change.get("buffer", tensor.buffer)
    tensor.name = change.get("name", tensor.name)
    graph.inputs = change.get("inputs", graph.inputs)
    if custom:
        code = model.operatorCodes[0]
        code.builtinCode, code.deprecatedBuiltinCode, code.customCode = 32, 32, b"Frob"
    model.subgraphs = model.subgraphs[:graphs]
    (work / "m.tflite").write_bytes(pack(model))


def _pt2(
    entries: dict[str, bytes] | None = None, drop: str = "", replace: tuple[str, bytes] | None = None
) -> object:
    def make(work: Path) -> None:
        with zipfile.ZipFile(asset("relu.pt2")) as source, zipfile.ZipFile(work / "m.pt2", "w") as target:
            for name in source.namelist():
                if drop and drop in name:
                    continue
                data = source.read(name)
                target.writestr(name, replace[1] if replace and replace[0] in name else data)
            for name, data in (entries or {}).items():
                target.writestr(name, data)

    return make


def _zip(zeros: int = 0, **entries: bytes) -> object:
    """Return a `make` that writes m.pt2; `zeros` bytes of 0 follow each entry, made only when it is written."""

    def make(work: Path) -> None:
        with zipfile.ZipFile(work / "m.pt2", "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in entries.items():
                file.writestr(name, data + bytes(zeros))

    return make


_EVIL = b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR."
PT2 = cases(
    "compile/pt2",
    [
        ("empty", *_file("pt2", b"")),
        ("text", *_file("pt2", b"hello")),
        ("cut", *_file("pt2", cut("relu.pt2", "m.pt2", 0.5))),
        ("zip-empty", *_file("pt2", _zip())),
        ("zip-of-others", *_file("pt2", _zip(a=b"b"))),
        ("pickle-alone", *_file("pt2", _EVIL)),
        ("legacy-pickle-in-zip", *_file("pt2", lambda work: _pickled(work))),
        ("model-json-missing", *_file("pt2", _pt2(drop="models/"))),
        ("model-json-cut", *_file("pt2", _pt2(replace=("models/model.json", b'{"graph_module": ')))),
        ("model-json-list", *_file("pt2", _pt2(replace=("models/model.json", b"[]")))),
        ("model-json-empty", *_file("pt2", _pt2(replace=("models/model.json", b"{}")))),
        ("version-missing", *_file("pt2", _pt2(drop="version"), "", exits=_ANY, writes=_PACKAGE)),
        ("format-unknown", *_file("pt2", _pt2(replace=("archive_format", b"pt9")), "", exits=_ANY, writes=_PACKAGE)),
        ("entry-above", *_file("pt2", _pt2({"../../evil.txt": b"x"}), "", exits=_ANY, writes=_PACKAGE)),
        ("inputs-pickle", *_file("pt2", _pt2(replace=("sample_inputs", _EVIL)), "", exits=_ANY, writes=_PACKAGE)),
        ("bomb", *_file("pt2", _zip(3 << 30, **{"m/version": b""}), memory=6 << 30)),
        ("onnx-named-pt2", *_file("pt2", cut("relu.onnx", "m.pt2", 1), exits=_ANY, writes=_PACKAGE)),
    ],
)  # fmt: skip


def _pickled(work: Path) -> None:
    with zipfile.ZipFile(work / "m.pt2", "w") as file:
        file.writestr("m/data.pkl", _EVIL)
        file.writestr("m/version", b"3\n")


def _main(line: bytes) -> bytes:
    return (
        b"func.func public @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {\n"
        + line
        + b"\n  return %y : tensor<1x8xf32>\n}\n"
    )


_NEG = b"  %y = stablehlo.negate %x : tensor<1x8xf32>"
STABLEHLO = cases(
    "compile/stablehlo",
    [
        ("empty", *_file("mlir", b"")),
        ("syntax", *_file("mlir", b"func.func {")),
        ("no-main", *_file("mlir", b"module {}", r"main")),
        ("main-private", *_file("mlir", _main(_NEG).replace(b"public", b"private"), r"main|m\.mlir", exits=_ANY, writes=_PACKAGE)),
        ("two-mains", *_file("mlir", _main(_NEG) * 2, r"main")),
        ("no-result", *_file("mlir", b"func.func public @main(%x: tensor<1x8xf32>) { return }", r"main|output|result", exits=REFUSED)),
        ("type-wrong", *_file("mlir", _main(b"  %y = stablehlo.negate %x : tensor<2x8xf32>"))),
        ("unknown-op", *_file("mlir", _main(b"  %y = stablehlo.frobnicate %x : tensor<1x8xf32>"), r"frobnicate|m\.mlir", exits=REFUSED)),
        ("unknown-dialect", *_file("mlir", _main(b'  %y = "acme.frob"(%x) : (tensor<1x8xf32>) -> tensor<1x8xf32>'), r"acme|m\.mlir", exits=REFUSED)),
        ("custom-call", *_file("mlir", _main(b"  %y = stablehlo.custom_call @frob(%x) : (tensor<1x8xf32>) -> tensor<1x8xf32>"), r"frob", exits=REFUSED)),
        ("dynamic", *_file("mlir", _main(_NEG).replace(b"1x8", b"?x8"), r"x|arg0|--shape")),
        ("not-utf8", *_file("mlir", b"// \xff\xfe\n" + _main(_NEG), "", exits=_ANY, writes=_PACKAGE)),
        ("nul", *_file("mlir", b"\0" + _main(_NEG), exits=_ANY, writes=_PACKAGE)),
        ("names-unicode", *_file("mlir", _main(_NEG).replace(b"tensor<1x8xf32>)", b'tensor<1x8xf32> loc("\\E2\\98\\83\\0A"))'), "", exits=_ANY, writes=_PACKAGE)),
        ("deep", *_file("mlir", _main(b"  %y = stablehlo.add %x, %x : tensor<1x8xf32> " + b"loc(" * 4000 + b'"a"' + b")" * 4000), exits=_ANY, writes=_PACKAGE, lines=60)),
        ("bytecode-magic", *_file("mlirbc", b"ML\xefR")),
        *((f"bytecode-cut-{keep}", *_file("mlirbc", cut("relu.mlirbc", "m.mlirbc", keep / 10))) for keep in (2, 5, 9)),
        ("bytecode-changed", *_file("mlirbc", changed("relu.mlirbc", "m.mlirbc", 0.3, b"\xff" * 8), "", exits=_ANY, writes=_PACKAGE)),
        ("jax-cut", *_file("jax", cut("relu.jax", "m.jax", 0.6))),
        ("jax-zeros", *_file("jax", bytes(4096))),
        ("jax-changed", *_file("jax", changed("relu.jax", "m.jax", 0.1, b"\xff" * 4), "", exits=_ANY, writes=_PACKAGE)),
    ],
)  # fmt: skip

CASES: list[Case] = [*STRUCTURE, *EXTERNAL, *NAMES, *TFLITE, *PT2, *STABLEHLO]
