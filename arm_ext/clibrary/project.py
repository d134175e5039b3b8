# SPDX-License-Identifier: Apache-2.0
"""Files of a library as a whole: those by which builds find it, and the example that runs the self-tests."""

from collections.abc import Sequence

from arm_ext.clibrary.sources import Sources, weights_source
from arm_ext.clibrary.text import comment, render
from arm_ext.common.version import __version__

# The self-test with regions on an NPU: cmake -D ON_NPU=ON.
_NPU = """
option(ON_NPU "Run regions on the NPU behind Linux's driver")
if(ON_NPU)
  target_compile_definitions(selftest PRIVATE {macros})
  target_link_libraries(selftest PRIVATE {name}::npu_linux)
endif()"""
_NPU_TARGET = """
if(NOT TARGET {name}::npu_linux)
  add_library({name}::npu_linux STATIC IMPORTED)
  set_target_properties({name}::npu_linux PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}_npu_linux.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}/include"
    INTERFACE_LINK_LIBRARIES "pthread")
endif()
"""
_THREADS = "\nfind_package(Threads REQUIRED)\ntarget_link_libraries(selftest PRIVATE Threads::Threads)"


def project_files(models: Sequence[Sources], *, has_math: bool) -> dict[str, str]:
    """Return the text of each file by its path.

    Args:
        models: The models of one library, at least one.
        has_math: Whether the library calls libm.
    """
    name = models[0].archive
    several = models[0].group is not None
    has_file = several and models[0].apart
    on_npu = " ".join(f"{each.name.upper()}_ON_NPU" for each in models if each.has_driver)
    checks = [f"{each.name}_check" for each in models]
    values = {
        "name": name,
        "title": comment(", ".join(f"{each.model.name} ({each.model.format})" for each in models)),
        "version": __version__,
        "libraries": "m" if has_math else "",
        "pc_libraries": "-lm" if has_math else "",
        "sources": " ".join(
            [
                *(["main.c"] if several else []),
                *(["main.S"] if has_file else []),
                *(file for each in models for file in (f"{each.example}.c", f"{each.data}.S")),
                *(f"../src/{each.name}_pool.c" for each in models if each.threads > 1),
            ]
        ),
        "threads": _THREADS if any(each.threads > 1 for each in models) else "",
        "npu": _NPU.format(name=name, macros=on_npu) if on_npu else "",
        "npu_targets": _NPU_TARGET.format(name=name) if on_npu else "",
        "declarations": "".join(f"int {check}(void);\n" for check in checks),
        "calls": "".join(f"    wrong += {check}();\n" for check in checks),
    }
    return {
        f"{name}Config.cmake": render("config.cmake", values),
        f"{name}.pc": render("model.pc", values),
        "example/CMakeLists.txt": render("CMakeLists.txt", values),
        **({"example/main.c": render("check.c", values)} if several else {}),
        **(
            {"example/main.S": weights_source(f"{name}_weights_file", f"../{name}.weights")}
            if has_file
            else {}
        ),
    }
