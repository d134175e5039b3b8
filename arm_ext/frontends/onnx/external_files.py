# SPDX-License-Identifier: Apache-2.0
"""The files with an ONNX model's external weights, which no output of the same command may overwrite."""

from collections.abc import Iterable, Iterator
from pathlib import Path


def with_external_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that a command reads; after each ONNX model, the files of its external weights.

    What cannot be read as a model is yielded alone: the importer says why.
    """
    for path in paths:
        yield path
        if path.suffix == ".onnx" and path.is_file():
            yield from _external(path)


def _external(path: Path) -> Iterator[Path]:
    import onnx  # not imported above: command lines that read no model start without it
    from google.protobuf.message import DecodeError

    from arm_ext.frontends.onnx.weights import PROTOBUF_BYTES

    if path.stat().st_size >= PROTOBUF_BYTES:
        return
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except (DecodeError, OSError):
        return
    places = {
        entry.value
        for tensor in onnx.external_data_helper._get_all_tensors(model)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    yield from (path.parent / place for place in sorted(places))
