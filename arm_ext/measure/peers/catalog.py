# SPDX-License-Identifier: Apache-2.0
"""The runtimes that a package can be compared with, and their pinned versions."""

from dataclasses import dataclass

from arm_ext.common.errors import UsageError
from arm_ext.common.names import near

# Both peers need numpy's C ABI version 2. numpy's own version does not change the counted instructions.
NUMPY = "numpy==2.4.6"


@dataclass(frozen=True)
class Peer:
    """A runtime to compare with.

    Attributes:
        name: Name for --against.
        distribution: Name of the peer's wheel.
        version: Version of the wheel. Pinned: kernels get better with releases, and a ratio without a version says
            nothing.
        package: The wheel's import name, which is the folder that it unpacks to.
        format: Format of the models that it takes: "onnx" or "tflite".
    """

    name: str
    distribution: str
    version: str
    package: str
    format: str

    @property
    def pins(self) -> tuple[str, ...]:
        """The pip requirements of the runtime and numpy."""
        return f"{self.distribution}=={self.version}", NUMPY


PEERS = {
    peer.name: peer
    for peer in (
        # The ONNX front end's reference is the same release.
        Peer("onnxruntime", "onnxruntime", "1.32.0", "onnxruntime", "onnx"),
        # The release whose default kernels the TFLite front end's tests reproduce exactly.
        Peer("litert", "ai-edge-litert", "2.3.0", "ai_edge_litert", "tflite"),
    )
}


def parse_peers(text: str) -> list[Peer]:
    """Parse the value of --against, such as "onnxruntime,litert".

    Raises:
        UsageError: A name is unknown or stands there twice.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PEERS:
            raise UsageError(f"--against: unknown runtime {name!r}; {near(name, PEERS)}")
    if len(set(names)) < len(names):
        raise UsageError(f"--against: {text} names a runtime twice")
    return [PEERS[name] for name in names]
