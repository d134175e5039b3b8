# SPDX-License-Identifier: Apache-2.0
"""The version of the distribution, and of the packages that decide what it compiles."""

import importlib.metadata
import platform

__version__ = "0.1.0"

# The package → its name for people.
_PACKAGES = {
    "apache-tvm": "TVM",
    "ziglang": "Zig",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "torch": "torch",
    "jaxlib": "jaxlib",
    "ai-edge-litert": "LiteRT",
    "ethos-u-vela": "Vela",
}


def versions() -> dict[str, str]:
    """Return name → version, "not installed" of packages that are missing. Loads TVM, to ask it for LLVM's."""
    from tvm.target import codegen

    found = {"arm-ext": __version__}
    for package, name in _PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
        if name == "TVM":
            found["LLVM"] = f"{codegen.llvm_version_major()} (in TVM)"
    return found | {"Python": f"{platform.python_version()} on {platform.machine()}"}
