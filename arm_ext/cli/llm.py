# SPDX-License-Identifier: Apache-2.0
"""`arm-ext llm`: language models."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arm_ext.cli.console import progress
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.options import (
    board_option,
    library_options,
    memory_budget_option,
    target_option,
    threads_option,
)
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import UsageError
from arm_ext.frontends.decoder.text import LLM, TextRecord

if TYPE_CHECKING:
    from arm_ext.api.compile import CompileResult
    from arm_ext.api.llm import LlmResult


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Option type 1,8,32 → the numbers."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(map(int, value.split(",")))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < 1:
            self.fail(f"{value!r} is no list of numbers from 1 on, such as 1,8,32", param, ctx)
        return numbers


@click.group()
def llm() -> None:
    """Compile language models, and generate text with them."""


@llm.command("compile")
@click.argument("model", type=PATH)
@target_option("to compile")
@click.option("--mattr", metavar="+x,-y", help="LLVM features to add to and remove from the profile's.")
@click.option("-o", "--output", type=PATH, help="Folder to write.  [default: NAME.armpkg]")
@click.option(
    "--context",
    type=click.IntRange(8),
    metavar="N",
    help="Most tokens of a prompt with its answer, a multiple of 8.  [default: what the model was trained for, at most "
    "2048]",
)
@click.option(
    "--cache",
    "cache",
    type=click.Choice(["float16", "float32"]),
    default="float16",
    show_default=True,
    help="Type of the keys and values of earlier tokens.",
)
@click.option(
    "--chunks",
    type=_Numbers(),
    metavar="N,N,…",
    default=(1, 8, 32, 128),
    help="How many tokens are appended at once: a prompt is divided into such chunks.  [default: 1,8,32,128]",
)
@click.option(
    "--quantize-weights",
    type=click.Choice(["int4", "int8"]),
    help="Quantise the weights of all layers in blocks of 32; embeddings and the last layer get 8 bits.  [default: as "
    "they are in the file]",
)
@memory_budget_option
@library_options
@click.option(
    "--force", is_flag=True, help="Write the package even if the folder has other files, which stay."
)
def compile_(model: Path, target: str, output: Path | None, **given: Any) -> None:
    """Compile MODEL, a GGUF file or a Hugging Face folder, into a package for `arm-ext llm run`, or a C library."""
    load_tvm()
    from arm_ext.api.compile import STEPS
    from arm_ext.api.llm import compile_llm

    is_library = given["emit"] == "c-library"
    folder = output or Path(model.stem + ("-c" if is_library else ".armpkg"))
    with progress("compiling", STEPS) as step:
        result = compile_llm(model, target, folder, progress=step, **given)
    manifest = result.package.manifest
    states = sum(state.bytes for state in manifest.inputs[1:])
    click.echo(f"{folder}  {manifest.model.name} for {manifest.target.profile}")
    record = _record(result)
    forms = {} if record is None else record.weights
    said = ", ".join(f"{form} {size / 1e6:.1f} MB" for form, size in forms.items())
    click.echo(f"  weights      {manifest.memory.weight_bytes:13,} bytes{f': {said}' if said else ''}")
    tokens = (
        "" if record is None else f" for {record.context:,} tokens, {states // record.context:,} for each"
    )
    click.echo(f"  cache        {states:13,} bytes{tokens}")
    click.echo(f"  activations  {manifest.memory.peak_activation_bytes:13,} bytes at the peak")
    for note in () if record is None else record.notes:
        click.echo(f"  {note}")
    if is_library:
        click.echo("\nA program over it, token numbers in and out: examples/llm in arm-ext's source.")
        return
    if record is None:
        click.echo(
            "\nThe model has no tokenizer: `arm-ext run` takes token numbers, `arm-ext llm run` nothing."
        )
        return
    click.echo(f"\nRun it, on an emulated board if there is none:\n  {_next(folder)}")


def _record(result: "CompileResult") -> TextRecord | None:
    """Return llm.json; None for a model without a tokenizer."""
    package = result.package
    if LLM not in {file.path for file in package.manifest.files}:
        return None
    return TextRecord.model_validate_json(package.read(LLM))


def _next(folder: Path) -> str:
    return f'arm-ext llm run {shlex.quote(str(folder))} --chat --prompt "What is a compiler?" --board virtual'


@llm.command()
@click.argument("package", type=PATH)
@board_option("run")
@click.option("--prompt", metavar="TEXT", help="The text to continue, or with --chat a message to the model.")
@click.option("--prompt-file", type=PATH, metavar="FILE", help="The same from a file.")
@click.option("--chat", is_flag=True, help="Put the prompt into the model's chat template.")
@click.option("--system", default="", metavar="TEXT", help="With --chat, the system's message.")
@click.option(
    "--tokens", type=click.IntRange(1), default=128, show_default=True, help="Most tokens to generate."
)
@click.option(
    "--temperature", type=float, default=0.0, show_default=True, help="0 takes the most likely token."
)
@click.option("--top-k", type=int, default=0, help="Draw from so many most likely tokens.  [default: all]")
@click.option(
    "--top-p",
    type=float,
    default=1.0,
    show_default=True,
    help="Draw from the most likely tokens of this probability.",
)
@click.option(
    "--min-p",
    type=float,
    default=0.0,
    help="Draw from tokens with this share of the likeliest one's probability.",
)
@click.option(
    "--repetition", type=float, default=1.0, show_default=True, help="Penalty of tokens that occurred."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds give equal texts.")
@click.option(
    "--stop", "stops", multiple=True, metavar="TEXT", help="Text that ends the answer; several may be given."
)
@threads_option("Texts are the same on any number.  [default: the runtime's choice]")
@click.option("--count", is_flag=True, help="Count the instructions of a token, on an emulated board.")
def run(
    package: Path,
    board: str,
    prompt: str | None,
    prompt_file: Path | None,
    chat: bool,
    system: str,
    tokens: int,
    stops: tuple[str, ...],
    threads: int | None,
    count: bool,
    **sampling: Any,
) -> None:
    """Continue a text with PACKAGE on a board; the text goes to stdout, numbers to stderr."""
    if (prompt is None) == (prompt_file is None):
        raise UsageError("give the text by --prompt, or by --prompt-file")
    if system and not chat:
        raise UsageError("--system is a part of the chat template; add --chat")
    text = prompt if prompt_file is None else _text(prompt_file)
    load_tvm()
    from arm_ext.api.llm import run_llm
    from arm_ext.llm.sampling import Sampling

    def show(piece: str) -> None:
        click.echo(piece, nl=False)

    result = run_llm(
        package,
        text or "",
        board,
        chat=chat,
        system=system,
        sampling=Sampling(**sampling),
        tokens=tokens,
        stops=stops,
        threads=threads,
        count=count,
        show=show,
    )
    click.echo()
    click.echo(_numbers(result), err=True)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"--prompt-file {path}: cannot be read as UTF-8 text: {err}") from err


def _numbers(result: "LlmResult") -> str:
    generated = result.generated
    parts = [
        f"{generated.prompt} tokens of prompt, {len(generated.ids)} generated; ended by {generated.ended}"
    ]
    if result.prompt_seconds and result.answer_seconds:
        parts.append(f"prompt {generated.prompt / result.prompt_seconds:.1f} tokens/s")
        parts.append(f"answer {len(generated.ids) / result.answer_seconds:.1f} tokens/s")
    if result.counted is not None:
        total = generated.prompt + len(generated.ids)
        millions = result.counted.instructions / 1e6
        parts.append(f"{millions:.2f} M instructions for a token after {total} (emulated)")
    return "; ".join(parts)
