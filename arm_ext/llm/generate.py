# SPDX-License-Identifier: Apache-2.0
"""Generation of text by a compiled decoder: a prompt in chunks, then token by token."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.frontends.decoder.text import LLM, TOKENIZER, TextRecord
from arm_ext.frontends.load import loading
from arm_ext.llm.sampling import Sampling
from arm_ext.package import Package

Step = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""Appends tokens, int32, to the states of a decoder; returns the logits after the last one."""

_UNFINISHED = "\ufffd"
"""What the bytes of an unfinished character are decoded to."""


@dataclass(frozen=True)
class TextModel:
    """The text side of a package.

    Attributes:
        record: llm.json.
        tokenizer: A `tokenizers.Tokenizer`.
        chunks: Numbers of tokens that the package appends at once, in descending order.
    """

    record: TextRecord
    tokenizer: Any
    chunks: tuple[int, ...]

    @staticmethod
    def of(package: Package) -> "TextModel":
        """Return the text side of a package.

        Raises:
            UsageError: The package is no language model's, or its tokenizer is damaged.
            EnvError: The package `tokenizers` is not installed.
        """
        if not {LLM, TOKENIZER} <= {file.path for file in package.manifest.files}:
            raise UsageError(
                f"{package.path}: holds no language model with a tokenizer; `arm-ext llm compile` makes such a package"
            )
        record = TextRecord.model_validate_json(package.read(LLM))
        with loading(
            "tokenizers", "the tokenizer needs the package tokenizers, which", "pip install tokenizers"
        ):
            from tokenizers import Tokenizer
        try:
            tokenizer = Tokenizer.from_str(package.read(TOKENIZER).decode())
        except Exception as err:  # tokenizers raises Exception itself
            raise UsageError(f"{package.path / TOKENIZER}: cannot be read ({err})") from err
        sizes = {view.manifest.inputs[0].shape[0] for view in package.views()}
        return TextModel(record, tokenizer, tuple(sorted(sizes, reverse=True)))

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        begin = self.record.begin
        return ids if begin is None or ids[:1] == [begin] else [begin, *ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def parts(self, count: int) -> Iterator[int]:
        """Yield the sizes of chunks that together have `count` tokens."""
        for size in self.chunks:
            while count >= size:
                count -= size
                yield size
        if count:
            raise UsageError(
                f"the package appends {' or '.join(map(str, self.chunks))} tokens at once, and {count} are left; "
                "compile with --chunks 1 among them"
            )


@dataclass
class Generated:
    """A generated text.

    Attributes:
        prompt: Number of tokens of the prompt.
        ids: The tokens that were generated.
        ended: Why it ended: "end of text", "stop", "length" or "context".
    """

    prompt: int
    ids: list[int]
    ended: str = ""


def generate(
    model: TextModel,
    step: Step,
    ids: Sequence[int],
    sampling: Sampling,
    most: int,
    stops: Sequence[str],
    show: Callable[[str], None],
) -> Generated:
    """Generate a text.

    Args:
        model: The text side of the package.
        step: Appends tokens on the board.
        ids: Tokens of the prompt.
        sampling: How tokens are drawn.
        most: Most tokens to generate.
        stops: Texts at which generation ends; they are not shown.
        show: Called with each further piece of text.

    Raises:
        UsageError: The prompt is empty or exceeds the context.
        EnvError: The board returns logits that are no numbers.
    """
    if not ids:
        raise UsageError("the prompt is empty")
    if len(ids) >= model.record.context:
        raise UsageError(
            f"the prompt has {len(ids)} tokens, and the package's context is {model.record.context} with the answer; "
            "shorten it, or compile with a larger --context"
        )
    result, sampler, at = Generated(len(ids), []), sampling.sampler(), 0
    for size in model.parts(len(ids)):
        logits = step(np.array(ids[at : at + size], np.int32))
        at += size
    text = _Text(model, stops, show)
    while True:
        if not np.isfinite(logits).all():
            raise EnvError("the model returned logits that are infinite or NaN")
        token = sampler.next(logits, [*ids, *result.ids])
        if token in model.record.end:
            result.ended = "end of text"
            break
        result.ids.append(token)
        if text.add(result.ids):
            result.ended = "stop"
            break
        if len(result.ids) >= most:
            result.ended = "length"
            break
        if len(ids) + len(result.ids) >= model.record.context:
            result.ended = "context"
            break
        logits = step(np.array([token], np.int32))
    text.finish()
    return result


class _Text:
    """Shows a text as it grows, but for what may become a stop or an unfinished character."""

    def __init__(self, model: TextModel, stops: Sequence[str], show: Callable[[str], None]) -> None:
        self.model, self.stops, self.show = model, [stop for stop in stops if stop], show
        self.shown, self.text = 0, ""

    def add(self, ids: Sequence[int]) -> bool:
        """Take the tokens so far; return whether a stop occurs in their text."""
        self.text = self.model.decode(ids)
        if found := [at for stop in self.stops if (at := self.text.find(stop, self._from(stop))) >= 0]:
            self.text = self.text[: min(found)]
            return True
        held = max((self._begun(stop) for stop in self.stops), default=0)
        ready = self.text[: len(self.text) - held].rstrip(_UNFINISHED)
        if len(ready) > self.shown:
            self.show(ready[self.shown :])
            self.shown = len(ready)
        return False

    def finish(self) -> None:
        """Show the rest."""
        if len(self.text) > self.shown:
            self.show(self.text[self.shown :])

    def _from(self, stop: str) -> int:
        return max(0, self.shown - len(stop))

    def _begun(self, stop: str) -> int:
        """Return how many characters at the end of the text may be the beginning of a stop."""
        return next((k for k in range(len(stop) - 1, 0, -1) if self.text.endswith(stop[:k])), 0)
