# SPDX-License-Identifier: Apache-2.0
"""The files of a package that make a compiled decoder speak: tokenizer.json and llm.json."""

from pydantic import Field

from arm_ext.common.json_record import JsonRecord

LLM, TOKENIZER = "llm.json", "tokenizer.json"
"""Names of the files. The second is in the format of the package `tokenizers`."""


class TextRecord(JsonRecord):
    """llm.json: what a decoder's text needs beside its tokenizer."""

    context: int = Field(description="Positions of the caches: tokens of a prompt and its answer.", gt=0)
    end: tuple[int, ...] = Field(description="Tokens that end a text.")
    begin: int | None = Field(
        default=None, description="Token that every text begins with; null if there is none."
    )
    chat_template: str = Field(
        default="", description="Jinja template of a conversation; empty if there is none."
    )
    notes: tuple[str, ...] = Field(
        default=(), description="What of the file's weights was converted, and the largest error."
    )
    weights: dict[str, int] = Field(
        default={}, description='Form of weights, such as "4 bits" or "float32" → their bytes with scales.'
    )
    special: dict[str, str] = Field(
        default={}, description="Texts of special tokens that the template reads, such as bos_token."
    )


def text_contents(tokenizer: bytes, record: TextRecord) -> dict[str, bytes]:
    """Return the files by name."""
    return {TOKENIZER: tokenizer, LLM: (record.model_dump_json(indent=2) + "\n").encode()}
