# SPDX-License-Identifier: Apache-2.0
"""The Rust crate of a C library: built by cargo, and run on the inputs of the self-test."""

import shutil
import subprocess
from pathlib import Path

import pytest

import arm_ext
from arm_ext.clibrary.rust import crate_files
from tests.arm_ext.clibrary.programs import STRICT, Library, cc, run
from tests.arm_ext.clibrary.test_several_models import headed, saved

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")

_RUNS = """
use core::mem::{size_of, zeroed};
use digits_int8::digits_int8::*;

#[repr(C, align(64))]
struct Aligned<const N: usize>([u8; N]);

static SELFTEST: Aligned<{ 256 + 64 }> = Aligned(*include_bytes!("SELFTEST"));

fn main() {
    let mut arena = Box::new(Aligned([0u8; ARENA_BYTES]));
    let mut logits = [0f32; OUTPUT_LOGITS_ELEMENTS];
    unsafe {
        let mut model: Instance = zeroed();
        let given = [Input { data: SELFTEST.0.as_ptr().cast(), bytes: INPUT_IMAGE_BYTES }];
        let wanted = [Output { data: logits.as_mut_ptr().cast(), bytes: OUTPUT_LOGITS_BYTES }];
        assert_eq!(run(&mut model, given.as_ptr(), wanted.as_ptr()), ERROR_INSTANCE);
        assert_eq!(init(&mut model, arena.0.as_mut_ptr().cast(), ARENA_BYTES - 1), ERROR_ARENA_BYTES);
        assert_eq!(init(&mut model, arena.0.as_mut_ptr().cast(), ARENA_BYTES), OK);
        assert_eq!(run(&mut model, given.as_ptr(), wanted.as_ptr()), OK);
        assert_eq!(INPUT_IMAGE_SHAPE, [1, 1, 8, 8]);
        assert_eq!((*input_tensor(INPUT_IMAGE)).shape, INPUT_IMAGE_SHAPE);
        assert_eq!(OUTPUT_LOGITS_TYPE, FLOAT32);
        assert_eq!((*output_tensor(OUTPUT_LOGITS)).type_, OUTPUT_LOGITS_TYPE);
        assert!(output_tensor(OUTPUTS).is_null());
        let said = std::ffi::CStr::from_ptr(strerror(ERROR_NULL));
        assert!(!said.to_bytes().is_empty());
        assert!(failure(&model).is_null());
    }
    let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
    assert_eq!(bytes, SELFTEST.0[256..256 + size_of::<[f32; 10]>()]);
    println!("all outputs agree");
}
"""

# Without an NPU, which is made in C: the CPU computes all regions.
_RUNS_REGIONS = """
use core::mem::zeroed;
use core::ptr::null;
use mixed::mixed::*;

#[repr(C, align(64))]
struct Aligned<const N: usize>([u8; N]);

const EXPECTED: usize = (INPUT_X_BYTES + 63) / 64 * 64;
static SELFTEST: Aligned<{ EXPECTED + (OUTPUT_HEAD_BYTES + 63) / 64 * 64 }> = Aligned(*include_bytes!("SELFTEST"));

fn main() {
    let mut arena = Box::new(Aligned([0u8; ARENA_BYTES]));
    let mut head = [0f32; OUTPUT_HEAD_ELEMENTS];
    let given = [Input { data: SELFTEST.0.as_ptr().cast(), bytes: INPUT_X_BYTES }];
    let wanted = [Output { data: head.as_mut_ptr().cast(), bytes: OUTPUT_HEAD_BYTES }];
    unsafe {
        let mut model: Instance = zeroed();
        assert_eq!(init(&mut model, arena.0.as_mut_ptr().cast(), ARENA_BYTES, null()), OK);
        assert_eq!(run(&mut model, given.as_ptr(), wanted.as_ptr()), OK);
    }
    let expected = SELFTEST.0[EXPECTED..].chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    assert!(head.iter().zip(expected).all(|(found, wanted)| (found - wanted).abs() <= 1e-5 * wanted.abs().max(1.0)));
    println!("{NPU_REGIONS} regions: all outputs agree");
}
"""


def cargo(folder: Path, source: str, crates: dict[str, Path]) -> str:
    """Build a program with crates, and return what it prints."""
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.rs").write_text(source)
    lines = "".join(f'{name} = {{ path = "{path}" }}\n' for name, path in crates.items())
    package = '[package]\nname = "program"\nversion = "0.1.0"\nedition = "2021"\n'
    (folder / "Cargo.toml").write_text(f"{package}[dependencies]\n{lines}")
    command = ["cargo", "run", "--quiet", "--offline", "--manifest-path", str(folder / "Cargo.toml")]
    # What a crate warns of, as of a name's case, is told in the program's own build.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    return done.stdout


def test_rust_runs_the_classifier(host_digits: Library, tmp_path: Path) -> None:
    source = _RUNS.replace('SELFTEST"', f'{host_digits.folder / "example" / "selftest.bin"}"')
    assert "all outputs agree" in cargo(
        tmp_path / "program", source, {"digits_int8": host_digits.folder / "rust"}
    )
    assert not (host_digits.folder / "rust" / "target").exists()


def test_rust_runs_a_model_with_regions_on_an_npu(mixed: Library, tmp_path: Path) -> None:
    source = _RUNS_REGIONS.replace('SELFTEST"', f'{mixed.folder / "example" / "selftest.bin"}"')
    assert "5 regions: all outputs agree" in cargo(
        tmp_path / "program", source, {"mixed": mixed.folder / "rust"}
    )


def test_types_have_the_sizes_that_c_gives_them(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In all kinds of libraries: states, several memories, a file of weights, lengths, samples, a pool, an NPU."""
    kinds = ("digits", "lstm", "mapped", "lengths", "samples", "shared")
    names = [*(f"host_{kind}" for kind in kinds), "mixed"]
    libraries: list[Library] = [request.getfixturevalue(name) for name in names]
    text, prints, rust = "#include <stdio.h>\n", "", ""
    for each in libraries:
        text += f'#include "{each.name}.h"\n'
        for kind in ("instance", "tensor", "input", "output"):
            prints += f'    printf("%lu\\n", (unsigned long)sizeof({each.name}_{kind}));\n'
            rust += f'    println!("{{}}", size_of::<{each.name}::{each.name}::{kind.title()}>());\n'
    source = tmp_path / "sizes.c"
    source.write_text(f"{text}int main(void)\n{{\n{prints}    return 0;\n}}\n")
    program = cc(
        [*STRICT, *(f"-I{each.folder / 'include'}" for each in libraries), source], tmp_path / "sizes"
    )
    crates = {each.name: each.folder / "rust" for each in libraries}
    assert cargo(tmp_path / "program", f"use core::mem::size_of;\nfn main() {{\n{rust}}}\n", crates) == run(
        program
    )


def test_a_library_of_several_models_has_a_module_of_each(tmp_path: Path) -> None:
    library = arm_ext.compile_library(
        saved(tmp_path, first=headed(7), second=headed(5)), "host", tmp_path / "pair"
    )
    source = "fn main() {\n" + "".join(
        f"    assert!(!unsafe {{ pair::{name}::output_tensor(0) }}.is_null());\n"
        for name in ("first", "second")
    )
    cargo(tmp_path / "program", f"{source}}}\n", {"pair": library.path / "rust"})


def test_names_that_rust_reserves_are_others() -> None:
    header = "/* match */\n#define MATCH_REGIONS 1\nmatch_status match_init(match_instance *instance, void *type);\n"
    files = crate_files("match", "match", {"match": header}, has_math=True)
    assert 'name = "match_"' in files["rust/Cargo.toml"]
    assert "pub mod match_;" in files["rust/src/lib.rs"]
    assert (
        "pub fn init(instance: *mut Instance, type_: *mut c_void) -> Status;" in files["rust/src/match_.rs"]
    )
    assert "rustc-link-lib=m" in files["rust/build.rs"]
