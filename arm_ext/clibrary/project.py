# SPDX-License-Identifier: Apache-2.0
"""Files that belong to a complete library: those by which builds find it, and the example that runs the self-tests."""

from collections.abc import Sequence

from arm_ext.clibrary.sources import Sources, weights_source
from arm_ext.clibrary.text import comment, render
from arm_ext.common.version import __version__


def project_files(models: Sequence[Sources], *, has_math: bool) -> dict[str, str]:
    """Return the text of each file by its path.

    Args:
        models: The models of one library, at least one.
        has_math: Whether the library calls libm.
    """
    name = models[0].archive
    several = models[0].group is not None
    has_weights_file = several and models[0].weights_in_file
    facts = {
        "name": name,
        "title": comment(", ".join(f"{each.model.name} ({each.model.format})" for each in models)),
        "version": __version__,
        "models": models,
        "includes": [f"{each.name}.h" for each in models],
        "has_math": has_math,
        "has_pool": any(each.threads > 1 for each in models),
        "on_npu": [f"{each.name.upper()}_ON_NPU" for each in models if each.has_driver],
        "sources": [
            *(["main.c"] if several else []),
            *(["main.S"] if has_weights_file else []),
            *(file for each in models for file in (f"{each.example}.c", f"{each.data}.S")),
            *(f"../src/{each.name}_pool.c" for each in models if each.threads > 1),
        ],
    }
    files = {
        f"{name}Config.cmake": render("config.cmake", facts),
        f"{name}.pc": render("model.pc", facts),
        "CMakeLists.txt": render("root.cmake", facts),
        "zephyr/module.yml": "build:\n  cmake: .\n",
        "example/CMakeLists.txt": render("CMakeLists.txt", facts),
    }
    if several:
        files["example/main.c"] = render("check.c", facts)
    if has_weights_file:
        files["example/main.S"] = weights_source(
            f"{name}_weights_file", f"../{name}.weights", models[0].alignment
        )
    return files
