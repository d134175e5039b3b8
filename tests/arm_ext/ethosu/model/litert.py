# SPDX-License-Identifier: Apache-2.0
"""LiteRT's reference kernels, which round twice, as Vela's int8 operators do; the default kernels round once."""

from collections.abc import Sequence

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.arm_ext.ethosu.tosa.graphs import Array


def run_reference_kernels(network: bytes, inputs: Sequence[Array]) -> Array:
    """Return the first output; inputs are reshaped to the model's shapes."""
    interpreter = Interpreter(model_content=network, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for detail, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], values.reshape(detail["shape"]))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
