# SPDX-License-Identifier: Apache-2.0
"""The operators of a TFLite model by unique names, and the check for unsupported ones."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from tvm.relax.frontend.tflite.tflite_frontend import OperatorConverter

from arm_ext.common.text import shown
from arm_ext.frontends.common.custom import converter_for
from arm_ext.frontends.common.refuse import refuse_operators
from arm_ext.frontends.tflite.codes import CUSTOM, operator_name
from arm_ext.frontends.tflite.graphs import graphs_of
from arm_ext.frontends.tflite.operators import OWN
from arm_ext.frontends.tflite.specs import tensor_name

_NOT_TAKEN = (
    # This operator's graphs consist of StableHLO operators.
    "STABLEHLO_WHILE",
    # Results of these operators depend on earlier calls.
    *(
        "LSTM",
        "MULTINOMIAL",
        "RANDOM_STANDARD_NORMAL",
        "RANDOM_UNIFORM",
        "RNN",
        "STABLEHLO_RNG_BIT_GENERATOR",
    ),
)
_COMPILED = "it is a part that was compiled for an accelerator; take the model from before that step"
_ADVICE = {
    f"{CUSTOM}edgetpu-custom-op": _COMPILED,
    f"{CUSTOM}ethos-u": _COMPILED,
    f"{CUSTOM}DISPATCH_OP": _COMPILED,
    f"{CUSTOM}Flex": "a TensorFlow operator; convert the model without SELECT_TF_OPS",
}


def named_operators(model: Any) -> dict[int, dict[str, Any]]:
    """Return the operators of all graphs that a run may execute: graph → unique name → operator."""
    taken: Counter[str] = Counter()
    found: dict[int, dict[str, Any]] = {}
    for number in graphs_of(model, operator_name):
        graph = model.Subgraphs(number)
        found[number] = {}
        for op in (graph.Operators(k) for k in range(graph.OperatorsLength())):
            # An operator without outputs is named after its last input, or else after its kind.
            given = [*_numbers(op.InputsAsNumpy()), *reversed(_numbers(op.OutputsAsNumpy()))]
            base = (
                tensor_name(graph.Tensors(given[-1])).split(";")[0]
                if given
                else operator_name(model, op).lower()
            )
            base = shown(base)
            taken[base] += 1
            found[number][base if taken[base] == 1 else f"{base}:{taken[base]}"] = op
    return found


def _numbers(found: Any) -> list[int]:
    return [] if isinstance(found, int) else [int(number) for number in found]


def check_supported(nodes: dict[str, str], known: Collection[str]) -> None:
    """Refuse operators that cannot be compiled, with one error for all of them.

    Args:
        nodes: Source node → operator.
        known: Names of the operators that upstream converts.

    Raises:
        ModelError: There are such operators; the message lists them.
    """
    missing: dict[str, list[str]] = {}
    for name, operator in nodes.items():
        if converter_for(operator) is not None:
            continue
        if operator in _NOT_TAKEN or not (operator in OWN or operator in known):
            missing.setdefault(operator, []).append(name)
    advice = {
        operator: text
        for prefix, text in _ADVICE.items()
        for operator in missing
        if operator.startswith(prefix)
    }
    refuse_operators(missing, advice)


def supported() -> list[str]:
    """Return the names of the operators that can be imported."""
    upstream = OperatorConverter(None, None, None, None).convert_map
    return sorted({*OWN, *upstream} - {*_NOT_TAKEN})
