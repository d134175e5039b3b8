# SPDX-License-Identifier: Apache-2.0
"""Compile language models, and generate text with them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.api.compile import CompileResult, compile
from arm_ext.api.run import on_board
from arm_ext.board.model import LoadedModel
from arm_ext.common.errors import UsageError
from arm_ext.common.trace import Trace
from arm_ext.frontends.decoder.build import IDS
from arm_ext.frontends.decoder.importer import open_decoder
from arm_ext.llm.chat import Message, render
from arm_ext.llm.generate import Generated, TextModel, generate
from arm_ext.llm.sampling import Sampling
from arm_ext.package import AnyPackage, package_of

CHUNKS = (1, 8, 32, 128)
"""Numbers of tokens that a package appends at once, if nothing else is asked for."""


def compile_llm(
    model: str | Path,
    target: str = "arm",
    output: str | Path = "model.armpkg",
    *,
    context: int | None = None,
    cache: str = "float16",
    chunks: Sequence[int] = CHUNKS,
    quantize_weights: str | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> CompileResult:
    """Compile a language model into a package that `run_llm` generates text with.

    Args:
        model: A GGUF file, or a Hugging Face folder: config.json, safetensors files, tokenizer.json.
        target: Name of a profile.
        output: The package folder.
        context: Most tokens of a prompt with its answer; by default what the model was trained for, at most 2,048.
        cache: Dtype of keys and values, "float16" or "float32".
        chunks: Numbers of tokens that the package appends at once; prompts are divided into such chunks.
        quantize_weights: "int4" or "int8" to quantise the weights of all layers in blocks of 32; embeddings and the
            last layer get 8 bits. By default weights stay as they are in the file.
        progress: Called with each step as it begins.
        more: Options of `arm_ext.compile` by keyword.

    Raises:
        UsageError, ModelError, EnvError: As `arm_ext.compile`.
    """
    if not chunks or len(set(chunks)) < len(chunks) or 1 not in chunks:
        raise UsageError(f"--chunks {','.join(map(str, chunks))}: they are different numbers, 1 among them")
    source = open_decoder(Path(model), context, cache, quantize_weights)
    sizes = tuple(sorted(size for size in chunks if size <= source.capacity))
    shapes = {IDS: (sizes if len(sizes) > 1 else sizes[0],)}
    return compile(source, target, output, shapes=shapes, progress=progress, **more)


@dataclass(frozen=True)
class LlmResult:
    """A generated text, the time that it took, and the instructions of a token.

    Attributes:
        text: The text after the prompt.
        generated: Numbers of tokens, and why the text ended.
        prompt_seconds: Wall-clock seconds for the prompt on a real board; None on an emulated one.
        answer_seconds: The same for the answer.
        counted: On an emulated board, the instructions of one token after the text; else None.
    """

    text: str
    generated: Generated
    prompt_seconds: float | None
    answer_seconds: float | None
    counted: Trace | None


def run_llm(
    package: AnyPackage,
    prompt: str,
    board: str = "virtual",
    *,
    chat: bool = False,
    system: str = "",
    sampling: Sampling | None = None,
    tokens: int = 128,
    stops: Sequence[str] = (),
    threads: int | None = None,
    count: bool = False,
    show: Callable[[str], None] = lambda text: None,
) -> LlmResult:
    """Continue a prompt.

    Args:
        package: A package of `compile_llm`.
        prompt: The text, or with `chat` the user's message.
        board: As for `arm_ext.run`.
        chat: Whether the prompt is put into the model's chat template.
        system: With `chat`, the system's message.
        sampling: How tokens are drawn; by default the most likely one is taken.
        tokens: Most tokens to generate.
        stops: Texts that end the answer.
        threads: Threads of the runtime.
        count: Whether instructions are counted, on an emulated board.
        show: Called with each piece of the answer.

    Raises:
        UsageError: The package is no language model's; the prompt is empty or too long; a value is out of range.
        ModelError: The chat template fails.
        EnvError: As `arm_ext.run`.
    """
    opened = package_of(package)
    model = TextModel.of(opened)
    text = _conversation(model, prompt, system) if chat else prompt
    ids, pieces, times = model.encode(text), list[str](), list[float]()

    def shown(piece: str) -> None:
        pieces.append(piece)
        show(piece)

    def work(loaded: LoadedModel) -> tuple[Generated, Trace | None]:
        loaded.reset()

        def step(tokens: npt.NDArray[Any]) -> npt.NDArray[Any]:
            (logits,) = loaded.step([tokens])
            times.append(time.perf_counter())
            return logits

        times.append(time.perf_counter())
        generated = generate(model, step, ids, sampling or Sampling(), tokens, stops, shown)
        room = len(ids) + len(generated.ids) + _COUNTED <= model.record.context
        counts = count and room
        return generated, loaded.count([np.array(ids[-1:], np.int32)], steps=True) if counts else None

    (generated, counted), _ = on_board(opened, board, work, threads, counting=count)
    real = not board.startswith("virtual")
    first = len(list(model.parts(len(ids))))
    return LlmResult(
        "".join(pieces),
        generated,
        times[first] - times[0] if real else None,
        times[-1] - times[first] if real else None,
        counted,
    )


_COUNTED = 8
"""Tokens that a count appends, with its warm-up."""


def _conversation(model: TextModel, prompt: str, system: str) -> str:
    if not model.record.chat_template:
        raise UsageError("the model has no chat template; give the whole text without --chat")
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    return render(model.record.chat_template, messages, model.record.special)
