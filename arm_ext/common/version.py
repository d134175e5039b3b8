# SPDX-License-Identifier: Apache-2.0
"""The versions of the distribution and of the packages that determine what it compiles."""

import importlib.metadata
import platform

__version__ = "0.1.0"

# Package → its name as shown to users.
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
    """Return name → version; "not installed" for missing packages. Loads TVM, to get LLVM's version."""
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
