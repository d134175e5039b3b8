# SPDX-License-Identifier: Apache-2.0
"""The Android example as far as it goes without the NDK: its JNI code in a Java VM, and how its .so is linked."""

import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

import arm_ext
from arm_ext.api import digits
from arm_ext.target.toolchain import zig
from tests.arm_ext.clibrary.programs import STRICT, Library, cc

SOURCES = Path(__file__).parents[2] / "examples/android/src/main"
JAVAC = shutil.which("javac")
IMAGES = 50
_MAIN = """
import org.armext.digits.Digits;
public class Main {
    public static void main(String[] arguments) throws Exception {
        try (Digits model = new Digits(); java.util.Scanner in = new java.util.Scanner(System.in)) {
            float[] image = new float[64];
            while (in.hasNext()) {
                for (int i = 0; i < image.length; i++) {
                    image[i] = Float.parseFloat(in.next());
                }
                System.out.println(model.classify(image));
            }
        }
    }
}
"""


@pytest.mark.skipif(JAVAC is None, reason="javac is not installed")
def test_java_classifies_in_the_arena(tmp_path: Path) -> None:
    assert JAVAC is not None
    package = arm_ext.compile(digits.model_path(), "host", tmp_path / "digits", emit="c-library").package
    headers = Path(JAVAC).resolve().parents[1] / "include"
    words = [*STRICT, "-O1", "-fPIC", "-shared", f"-I{headers}", f"-I{headers / 'linux'}"]
    jni = SOURCES / "cpp/digits_jni.c"
    cc([*words, jni, *Library(package).arguments], tmp_path / "libdigits_jni.so")
    (tmp_path / "Main.java").write_text(_MAIN)
    java = SOURCES / "java/org/armext/digits/Digits.java"
    subprocess.run([JAVAC, "-Xlint:all", "-Werror", "-d", tmp_path, java, tmp_path / "Main.java"], check=True)
    images, labels = digits.held_out()
    said = subprocess.run(
        [
            Path(JAVAC).with_name("java"),
            "-Xcheck:jni",
            f"-Djava.library.path={tmp_path}",
            "-cp",
            tmp_path,
            "Main",
        ],
        input=" ".join(map(str, images[:IMAGES].ravel().tolist())),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    right = sum(int(found) == label for found, label in zip(said, labels[:IMAGES], strict=True))
    assert right > 0.95 * IMAGES


def test_a_shared_library_loads_on_pages_of_16_kib(tmp_path: Path) -> None:
    """Linked as the guide says: no text relocations, no C library of another system, segments 16 KiB apart."""
    package = arm_ext.compile(
        digits.model_path(), "cortex-a76", tmp_path / "digits", emit="c-library"
    ).package
    archive = Library(package).archive
    flags = ["-nostdlib", "-shared", "-Wl,-soname,libdigits_int8.so", "-Wl,-z,max-page-size=16384"]
    whole = ["-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"]
    zig(["cc", "-target", "aarch64-linux-none", *flags, *whole, "-o", tmp_path / "libdigits_int8.so"])
    with (tmp_path / "libdigits_int8.so").open("rb") as file:
        elf = ELFFile(file)
        loaded = [segment.header for segment in elf.iter_segments("PT_LOAD")]
        (dynamic,) = (section for section in elf.iter_sections() if isinstance(section, DynamicSection))
        tags = {tag.entry.d_tag for tag in dynamic.iter_tags()}
    assert loaded
    assert all(header.p_align == 1 << 14 for header in loaded)
    assert not any(header.p_flags & 1 and header.p_flags & 2 for header in loaded)  # executable and writable
    assert tags.isdisjoint({"DT_NEEDED", "DT_TEXTREL"})
    assert "DT_GNU_HASH" in tags
