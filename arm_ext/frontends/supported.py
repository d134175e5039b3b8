# SPDX-License-Identifier: Apache-2.0
"""Names of the operators that each front end takes, read from its tables.

An operator may still be unsupported in a rare form, which a compilation tells with the node's name.
"""

from collections.abc import Callable, Mapping

import onnx


def _onnx() -> list[str]:
    from arm_ext.frontends.onnx.check import supported

    nodes = {
        (schema.domain, schema.name): onnx.NodeProto(op_type=schema.name, domain=schema.domain)
        for schema in onnx.defs.get_all_schemas()
        if schema.domain in ("", "ai.onnx.ml") and not schema.deprecated
    }
    return supported(nodes.values())


def _torch() -> list[str]:
    from arm_ext.frontends.torch.translator import supported

    return supported()


def _tflite() -> list[str]:
    from arm_ext.frontends.tflite.supported import supported

    return supported()


def _stablehlo() -> list[str]:
    from arm_ext.frontends.stablehlo.operators import supported

    return supported()


SUPPORTED: Mapping[str, Callable[[], list[str]]] = {
    "onnx": _onnx,
    "pytorch": _torch,
    "tflite": _tflite,
    "stablehlo": _stablehlo,
}
"""Model format → function that returns the sorted names of its operators."""
