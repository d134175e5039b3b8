# SPDX-License-Identifier: Apache-2.0
"""Reading .pt2 files as data: no code in a file is run.

torch.export.load runs code that a file brings. It unpickles example inputs, constants and some weights, evaluates
symbolic sizes by sympy, imports the modules of enumerations, calls whatever attribute of the module `torch` a node
names, and pastes names and guards into Python source that it compiles. So none of it sees a file here. The zip
archive, its weights as raw bytes and its JSON are read by this module, each string is checked against what may stand
in its place, and torch is handed tensors and its own records made of them. What would need more is refused.
"""

import dataclasses
import json
import math
import re
import types
import typing
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import numpy as np
import torch
from torch._export.serde import schema, serialize
from torch._export.serde.union import _Union
from torch.export import ExportedProgram

from arm_ext.frontends.torch import affine
from arm_ext.frontends.torch.expression import is_expression

_T = TypeVar("_T")

_FORMAT, _MODEL = "archive_format", "models/model.json"
_WEIGHTS, _WEIGHTS_CONFIG = "data/weights/", "data/weights/model_weights_config.json"
_CONSTANTS, _CONSTANTS_CONFIG = "data/constants/", "data/constants/model_constants_config.json"

_NAME = re.compile(r"[^\W\d]\w*")
# Names of modules, parameters and buffers are free text, but must not contain a character that ends a string
# literal.
_PATH = re.compile(r"[^\"'\\{}\x00-\x1f\x7f]*")
_INT64 = range(-(2**63), 2**63)
# Strides of 0 repeat elements, so a file of a few bytes may represent a tensor of any size.
_MAX_ELEMENTS = 2**32
_PIECE_BYTES = 2**20

_SIZE_OPERATORS = """
    _operator.add _operator.and_ _operator.eq _operator.floordiv _operator.ge _operator.getitem _operator.gt
    _operator.le _operator.lshift _operator.lt _operator.mod _operator.mul _operator.ne _operator.neg _operator.not_
    _operator.or_ _operator.pos _operator.pow _operator.rshift _operator.sub _operator.truediv
    math.ceil math.floor math.sqrt math.trunc
    torch.sym_float torch.sym_int torch.sym_ite torch.sym_max torch.sym_min torch.sym_not torch.sym_sum
"""
_CONTROL_FLOW = "associative_scan cond map_impl scan while_loop wrap_with_autocast wrap_with_set_grad_enabled"
_OPERATORS = frozenset(
    [*_SIZE_OPERATORS.split(), *(f"torch.ops.higher_order.{name}" for name in _CONTROL_FLOW.split())]
)
_LIBRARY_OPERATOR = re.compile(r"torch\.ops\.(aten|quantized_decomposed|torchao)\.(\w+)(?:\.(\w+))?")
# What a node calls that reads a part of a tensor subclass, such as a quantised weight of torchao.
_OF_SUBCLASS = "torch.ops.export.access_subclass_inner_tensor.default"
# The ATen operator that opens files.
_FILE_OPERATORS = frozenset({"from_file"})
_CONTAINERS = frozenset({"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})


class UntrustedError(Exception):
    """Raised for data that only torch.export.load can read, by running code of the file; the message names the data."""


class SubclassError(Exception):
    """Raised for tensors that are objects of a class of their own, stored as pickles."""


def read_program(path: Path) -> ExportedProgram:
    """Read a program that torch.export.save has written.

    Raises:
        UntrustedError: The file holds something that is not plain data.
        Exception: The file is damaged; of many types.
    """
    with zipfile.ZipFile(path) as archive:
        members = _Members(archive, path.stat().st_size)
        program = _record(schema.ExportedProgram, members.json(_MODEL))
        weights = _tensors(members, _WEIGHTS, _WEIGHTS_CONFIG)
        constants = _tensors(members, _CONSTANTS, _CONSTANTS_CONFIG)
    if any(node.target.startswith("torch.ops.torchao.") for node in program.graph_module.graph.nodes):
        affine.define()
    return serialize.ExportedProgramDeserializer().deserialize(program, weights, constants)


class _Members:
    """The files in an archive, by their paths below its root folder."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        root = next(info.filename.removesuffix(_FORMAT) for info in infos if info.filename.endswith(_FORMAT))
        self._archive = archive
        self._infos = {info.filename.removeprefix(root): info for info in infos}
        # torch.export.save stores files uncompressed: an archive that unpacks to more than its own size is a zip bomb.
        packed = [info.filename for info in infos if info.compress_type != zipfile.ZIP_STORED]
        if packed:
            raise UntrustedError(f"{packed[0]} in it is compressed, which torch.export.save never does")
        if sum(info.file_size for info in infos) > size:
            raise ValueError("its files together are larger than the archive")

    def json(self, name: str) -> Any:
        return json.loads(self._archive.read(self._info(name)))

    def tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """Return a file's elements in memory of torch's own, whose alignment lets TVM share it."""
        info = self._info(name)
        data = torch.empty(info.file_size, dtype=torch.uint8)
        view, read = data.numpy(), 0
        with self._archive.open(info) as file:  # which checks the sum when the end is read
            while piece := file.read(_PIECE_BYTES):
                view[read : read + len(piece)] = np.frombuffer(piece, np.uint8)
                read += len(piece)
        if read != info.file_size:
            raise ValueError(f"{name} ends early")
        return data.view(dtype)

    def _info(self, name: str) -> zipfile.ZipInfo:
        if name not in self._infos:
            pickled = f"{name.rpartition('/')[0]}/model.pt"
            if pickled in self._infos:
                raise UntrustedError(f"{pickled} in it is a pickle, as older versions of PyTorch write")
            raise ValueError(f"{name} is missing")
        return self._infos[name]


def _tensors(members: _Members, folder: str, config: str) -> dict[str, torch.Tensor]:
    """Return weights or constants by path; tensors that share bytes in the file share memory."""
    stored: dict[str, torch.Tensor] = {}
    tensors: dict[str, torch.Tensor] = {}
    for name, payload in _record(schema.PayloadConfig, members.json(config)).config.items():
        file, meta = payload.path_name, payload.tensor_meta
        if payload.use_pickle or meta is None:
            raise UntrustedError(f"'{name}' is a Python object, stored as a pickle ({folder}{file})")
        dtype = serialize._SERIALIZE_TO_TORCH_DTYPE[meta.dtype]
        if file not in stored:
            stored[file] = members.tensor(folder + file, dtype)
        tensor = _strided(stored[file], meta, name)
        tensors[name] = torch.nn.Parameter(tensor, meta.requires_grad) if payload.is_param else tensor
    return tensors


def _strided(stored: torch.Tensor, meta: schema.TensorMeta, name: str) -> torch.Tensor:
    sizes, strides = ([int(dim.as_int) for dim in dims] for dims in (meta.sizes, meta.strides))
    offset = int(meta.storage_offset.as_int)
    if len(sizes) != len(strides) or min(*sizes, *strides, offset, 0) < 0:
        raise ValueError(f"'{name}' has sizes {sizes}, strides {strides} and offset {offset}")
    elements = math.prod(sizes)
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if elements and (last >= stored.numel() or elements > _MAX_ELEMENTS):
        raise ValueError(f"'{name}' of sizes {sizes} exceeds its file of {stored.numel()} elements")
    if not elements:
        return torch.empty(sizes, dtype=stored.dtype)
    return stored.as_strided(sizes, strides, offset)


def _record(kind: type[_T], value: Any) -> _T:
    """Return JSON as a record of torch's schema, with each field checked."""
    result: _T = _checked(kind, value, "", "")
    return result


def _checked(kind: Any, value: Any, owner: str, field: str) -> Any:
    """Return a field's JSON value, converted to the field's type in torch's schema.

    Raises:
        UntrustedError: A string is not allowed in that place.
        ValueError: The value is of another type.
    """
    origin = get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        inner = next(arg for arg in get_args(kind) if arg is not types.NoneType)
        return None if value is None else _checked(inner, value, owner, field)
    if origin is list and isinstance(value, list):
        return [_checked(get_args(kind)[0], item, owner, field) for item in value]
    if origin is dict and isinstance(value, dict):
        of_paths = kind is not None and owner == "PayloadConfig"
        check = _path if of_paths else _name
        return {check(key): _checked(get_args(kind)[1], item, owner, field) for key, item in value.items()}
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _fields(typing.cast("type[Any]", kind), value)
    if kind is str and isinstance(value, str):
        return _STRINGS.get((owner, field), _name)(value)
    if isinstance(kind, type) and issubclass(kind, int) and kind not in (int, bool) and type(value) is int:
        return kind(value)
    if kind is float and value in ("Infinity", "-Infinity", "NaN"):
        return float(value)
    if kind is float and type(value) in (int, float):
        return float(value)
    if kind in (int, bool) and type(value) is kind and (kind is bool or value in _INT64):
        return value
    raise ValueError(f"{owner}.{field} is {json.dumps(value)[:100]}, not {kind}")


def _fields(kind: type[Any], value: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(kind, globalns=vars(schema))
    if issubclass(kind, _Union):
        [(chosen, content)] = value.items()
        if chosen in _REFUSED:
            raise UntrustedError(f"it contains {_REFUSED[chosen]}")
        create: Callable[..., Any] = kind.create
        return create(**{chosen: _checked(hints[chosen], content, kind.__name__, chosen)})
    made = {}
    for field in dataclasses.fields(kind):
        if (kind.__name__, field.name) in _DROPPED:
            made[field.name] = _DROPPED[kind.__name__, field.name]()
        elif (kind.__name__, field.name) == ("Node", "metadata"):
            made[field.name] = _module_of(value.get(field.name))
        elif field.name in value:
            made[field.name] = _checked(hints[field.name], value[field.name], kind.__name__, field.name)
    return kind(**made)


def _name(text: str) -> str:
    """Check the name of a value, graph or argument; torch copies names into Python source."""
    if text and not _NAME.fullmatch(text):
        raise UntrustedError(f"a name in it is not an identifier: {text[:100]!r}")
    return text


def _path(text: str) -> str:
    """Check the path of a parameter or module; torch copies paths into Python source between quotation marks."""
    if not _PATH.fullmatch(text):
        raise UntrustedError(f"a path in it is not a valid module path: {text[:100]!r}")
    return text


def _module_of(metadata: Any) -> dict[str, str]:
    """Return a node's metadata reduced to the path of its innermost module, if that is a valid path."""
    stack = metadata.get("nn_module_stack") if isinstance(metadata, dict) else None
    _, path, *_ = [*(stack if isinstance(stack, str) else "").rpartition(";")[2].split(","), ""]
    return {"nn_module_stack": f"module,{path},module"} if path and _PATH.fullmatch(path) else {}


def _expression(text: str) -> str:
    if not is_expression(text):
        raise UntrustedError(f"a size in it is not an arithmetic expression: {text[:100]!r}")
    return text


def _operator(text: str) -> str:
    if text == _OF_SUBCLASS:
        raise SubclassError("its weights are objects of a tensor class of their own, stored as pickles")
    found = _LIBRARY_OPERATOR.fullmatch(text)
    if text not in _OPERATORS and (not found or found[2] in _FILE_OPERATORS or not _is_known(found)):
        raise UntrustedError(f"a node calls {text[:100]!r}, which is not an operator of PyTorch on tensors")
    return text


def _is_known(operator: re.Match[str]) -> bool:
    """Whether PyTorch's dispatcher has an operator, or we know it.

    The dispatcher lacks TorchScript's operators on strings, lists and files.
    """
    namespace, name, overload = operator.groups()
    if namespace == "torchao":
        return name in affine.OPERATORS
    qualified = f"{namespace}::{name}" + (f".{overload}" if overload not in (None, "default") else "")
    return namespace != "aten" or qualified in _dispatched()


@cache
def _dispatched() -> frozenset[str]:
    return frozenset(torch._C._dispatch_get_all_op_names())


def _text(text: str) -> str:
    return text  # torch writes the repr of strings that are arguments of an operator


def _file(text: str) -> str:
    if not re.fullmatch(r"\w+", text):
        raise ValueError(f"an archive cannot have a file named {text[:100]!r}")
    return text


def _device(text: str) -> str:
    if text not in ("cpu", "cuda", "meta"):
        raise ValueError(f"a device cannot be named {text[:100]!r}")
    return text


def _treespec(text: str) -> str:
    """Check the text of a pytree of arguments or results, which is JSON inside JSON."""
    version, tree = json.loads(text)
    if version != 1:
        raise ValueError(f"its pytree of inputs has version {version}; only version 1 is supported")
    _check_tree(tree)
    return text


def _check_tree(tree: Any) -> None:
    kind, context, children = tree["type"], tree["context"], tree["children_spec"]
    if kind is not None and kind not in _CONTAINERS:
        raise UntrustedError(
            f"its inputs or outputs are in a {str(kind)[:100]}; supported are tuple, list and dict"
        )
    keys = json.loads(context) if isinstance(context, str) else context
    if keys is not None and not (
        isinstance(keys, list)
        and all(type(key) is int or (type(key) is str and _path(key) == key) for key in keys)
    ):
        raise UntrustedError(
            f"keys of its inputs or outputs are neither strings nor integers: {str(context)[:100]}"
        )
    for child in children:
        _check_tree(child)


# (Class, field) of a string → the function that checks it; all other strings must be identifiers.
_STRINGS: dict[tuple[str, str], Callable[[str], str]] = {
    ("SymExpr", "expr_str"): _expression,
    ("Node", "target"): _operator,
    ("Argument", "as_operator"): _operator,
    ("Argument", "as_string"): _text,
    ("Argument", "as_strings"): _text,
    ("ConstantValue", "as_string"): _text,
    ("ExportedProgram", "torch_version"): _text,
    ("ModuleCallEntry", "fqn"): _path,
    ("InputToParameterSpec", "parameter_name"): _path,
    ("InputToBufferSpec", "buffer_name"): _path,
    ("InputToTensorConstantSpec", "tensor_constant_name"): _path,
    ("BufferMutationSpec", "buffer_name"): _path,
    ("ParameterMutationSpec", "parameter_name"): _path,
    ("ModuleCallSignature", "in_spec"): _treespec,
    ("ModuleCallSignature", "out_spec"): _treespec,
    ("PayloadMeta", "path_name"): _file,
    ("Device", "type"): _device,
}
# Members of torch's unions that represent Python objects.
_REFUSED = {"as_custom_obj": "a Python object as an argument", "custom_obj": "a Python object as an input"}
# Fields that compilation does not need, such as conditions on sizes as Python source.
_DROPPED: dict[tuple[str, str], Callable[[], Any]] = {
    ("GraphModule", "metadata"): dict,
    ("GraphModule", "treespec_namedtuple_fields"): dict,
    ("Graph", "custom_obj_values"): dict,
    ("ExportedProgram", "guards_code"): list,
}
