# SPDX-License-Identifier: Apache-2.0
"""Immutable records, and records that are read from JSON files of unknown origin."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from arm_ext.common.errors import UsageError

# Types of pydantic's schemas that can stop at the first fault; mappings only can in later versions.
_COLLECTIONS = tuple(
    name
    for name, schema in (
        ("list", core_schema.ListSchema),
        ("tuple", core_schema.TupleSchema),
        ("dict", core_schema.DictSchema),
    )
    if "fail_fast" in schema.__annotations__
)
_LONGEST = 300  # maximum number of characters of a message, since it quotes the file


def _failing_fast(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_failing_fast(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: value if key == "metadata" else _failing_fast(value) for key, value in schema.items()}
    return {**changed, "fail_fast": True} if schema.get("type") in _COLLECTIONS else changed


class ClosedRecord(BaseModel):
    """An immutable record that accepts no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class JsonRecord(BaseModel):
    """An immutable record whose lists are checked up to their first fault.

    pydantic goes on and keeps each fault, half a kilobyte of memory, and an element that has several may be written in
    three bytes: a file of 10 MB would take gigabytes until it is refused.
    """

    model_config = ConfigDict(frozen=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema with lists that stop at their first fault."""
        schema: Any = _failing_fast(handler(source))
        return schema  # type: ignore[no-any-return]


class ClosedJsonRecord(JsonRecord, ClosedRecord):
    """A record from a JSON file that accepts no unknown fields."""


_Record = TypeVar("_Record", bound=JsonRecord)


def parsed(record: type[_Record], data: bytes, path: Path, advice: str) -> _Record:
    """Return the record in a JSON file.

    Args:
        record: Its type.
        data: The file's bytes.
        path: The file, for messages.
        advice: What to do about a file that holds no such record, for messages.

    Raises:
        UsageError: The file holds no JSON, or that of something else.
    """
    try:
        return record.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{path}: {where[:_LONGEST]}: {said[:_LONGEST]}; {advice}") from error
