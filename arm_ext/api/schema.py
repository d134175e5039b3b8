# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of the documents that the tool writes, generated from their records."""

from typing import Literal

from pydantic import BaseModel

from arm_ext.package.manifest import LibraryManifest, Manifest
from arm_ext.report.accuracy.record import AccuracyReport
from arm_ext.report.certificate import Certificate
from arm_ext.report.profile.record import ProfileReport
from arm_ext.report.report import CompileReport

Document = Literal["manifest", "library", "report", "profile", "accuracy", "certificate"]

DOCUMENTS: dict[Document, type[BaseModel]] = {
    "manifest": Manifest,
    "library": LibraryManifest,
    "report": CompileReport,
    "profile": ProfileReport,
    "accuracy": AccuracyReport,
    "certificate": Certificate,
}
"""Document → its record; "library" is the manifest of a C library with several models."""


def schema(document: Document) -> dict[str, object]:
    """Return the JSON schema (draft 2020-12) of a document that the tool writes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **DOCUMENTS[document].model_json_schema(mode="serialization"),
    }
