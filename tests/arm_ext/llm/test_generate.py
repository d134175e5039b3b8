# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as Bytes
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.frontends.decoder.text import TextRecord
from arm_ext.llm.generate import Generated, TextModel, generate
from arm_ext.llm.sampling import Sampling

ALPHABET = sorted(ByteLevel.alphabet())
END = len(ALPHABET)


def model(chunks: Sequence[int] = (4, 1), context: int = 32, begin: int | None = None) -> TextModel:
    """A tokenizer whose tokens are bytes."""
    tokenizer = Tokenizer(BPE({token: index for index, token in enumerate(ALPHABET)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = ByteLevel(add_prefix_space=False, use_regex=False), Bytes()
    return TextModel(TextRecord(context=context, end=(END,), begin=begin), tokenizer, tuple(chunks))


class Speaker:
    """Says a text byte by byte, whatever it is asked; remembers the chunks."""

    def __init__(self, text: TextModel, says: str) -> None:
        self.ids = [*text.encode(says), END]
        self.chunks: list[int] = []

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        self.chunks.append(len(ids))
        logits = np.zeros(END + 1, np.float32)
        logits[self.ids[max(0, self.chunks.count(1) - 1)] if self.chunks[-1] == 1 else self.ids[0]] = 1.0
        return logits


def said(
    says: str, prompt: str, text: TextModel, most: int = 99, stops: Sequence[str] = ()
) -> tuple[str, Generated]:
    pieces: list[str] = []
    speaker = Speaker(text, says)
    result = generate(text, speaker, text.encode(prompt), Sampling(), most, stops, pieces.append)
    assert speaker.chunks[: len(list(text.parts(result.prompt)))] == list(text.parts(result.prompt))
    return "".join(pieces), result


def test_a_prompt_is_divided_into_chunks():
    text = model((8, 4, 1))
    assert list(text.parts(15)) == [8, 4, 1, 1, 1]
    with pytest.raises(UsageError, match="2 are left"):
        list(model((4,)).parts(6))


def test_text_until_its_end():
    answer, result = said("Grüße, 木!", "abcde", model())
    assert answer == "Grüße, 木!"
    assert (result.prompt, result.ended) == (5, "end of text")


def test_stops_across_tokens_are_not_shown():
    assert said("one two three", "abcde", model(), stops=["two", "xyz"])[0] == "one "
    assert said("one tw", "abcde", model(), stops=["two"])[0] == "one tw"
    assert said("木木", "abcde", model(), stops=["木"])[1].ended == "stop"


def test_limits():
    assert said("abcdef", "abcde", model(), most=3)[1].ended == "length"
    assert said("abcdefghijkl", "abcde", model(context=9))[1].ended == "context"
    with pytest.raises(UsageError, match="9 tokens, and the package's context is 8"):
        said("a", "123456789", model(context=8))
    with pytest.raises(UsageError, match="the prompt is empty"):
        said("a", "", model())
    with pytest.raises(EnvError, match="infinite or NaN"):
        generate(model(), lambda _: np.array([np.nan]), [1], Sampling(), 1, (), str)


def test_begin():
    text = model(begin=7)
    assert text.encode("ab")[0] == 7
    assert len(text.encode("ab")) == 3
