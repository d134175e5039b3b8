# SPDX-License-Identifier: Apache-2.0
"""Conversion of an ONNX model to an opset with the types that quantisation needs."""

import onnx

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.refuse import reason_of
from arm_ext.frontends.onnx.expansion import opset_of


def at_least_opset(proto: onnx.ModelProto, name: str, least: int) -> onnx.ModelProto:
    """Return a model of the opset `least` or a later one, with the model's metadata.

    Raises:
        ModelError: onnx cannot convert it.
    """
    opset = opset_of(proto)
    if opset >= least:
        return proto
    try:
        converted = onnx.version_converter.convert_version(proto, least)
    except Exception as err:  # RuntimeError if the converter reports an error, ValueError if it crashes
        raise ModelError(
            f"{name}: quantising needs opset {least}, to which onnx cannot convert the model from opset {opset}: "
            f"{reason_of(err, line=0)}. Export it at opset {least} or later."
        ) from err
    del converted.metadata_props[:]
    converted.metadata_props.extend(proto.metadata_props)
    return converted
