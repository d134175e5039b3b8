# SPDX-License-Identifier: Apache-2.0
"""Embedding of a page's style, scripts and data in one HTML file that needs no network and no server."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files

from pydantic import BaseModel

_PLACE = re.compile(r"/\*([A-Z]+)\*/")


def embedded(package: str, data: Mapping[str, BaseModel | None]) -> str:
    """Return a package's page.html with the style, the scripts and the data that it shows.

    Args:
        package: The package with page.html and page.js.
        data: Placeholder in page.html → its data, such as PROFILE for /*PROFILE*/.
    """
    parts = {
        "STYLE": page_style(),
        "ECHARTS": _text(__package__, "echarts.min.js"),
        "COMMON": _text(__package__, "common.js"),
        "SCRIPT": _text(package, "page.js"),
        **{name: _json(record) for name, record in data.items()},
    }
    # Replace all placeholders in one pass, since a node of the model may have a placeholder's name.
    return _PLACE.sub(lambda place: parts[place[1]], _text(package, "page.html"))


def page_style() -> str:
    """Return the style that all pages share, light or dark as the reader's system is."""
    return _text(__package__, "page.css")


def _text(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def _json(record: BaseModel | None) -> str:
    """Return a record as JSON in which no name can end the surrounding script element."""
    document = None if record is None else record.model_dump(mode="json")
    return json.dumps(document).replace("<", "\\u003c")
