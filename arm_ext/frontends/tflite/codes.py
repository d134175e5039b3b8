# SPDX-License-Identifier: Apache-2.0
"""Numbers and names in a TFLite file."""

from typing import Any

import tflite

CUSTOM = "CUSTOM."
"""Prefix of the names of operators that the schema does not know."""

SVDF_STATE = 4
"""Index of the input of an SVDF that is its state."""

_OPERATORS: dict[int, str] = {
    value: name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)
}


def operator_name(model: Any, op: Any) -> str:
    """Return the operator's name in TFLite's schema; for a custom operator, "CUSTOM." and its own name."""
    code = model.OperatorCodes(op.OpcodeIndex())
    # Older files have the operator's number in the older, narrower field only.
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    own: bytes = code.CustomCode() or b""
    # Some tools leave a custom operator's number at 0, which is ADD's.
    if number == tflite.BuiltinOperator.CUSTOM or own:
        return CUSTOM + (own or b"?").decode()
    return _OPERATORS.get(number, f"operator {number}")
