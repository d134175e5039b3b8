# SPDX-License-Identifier: Apache-2.0
"""A profile as one HTML file that needs no network and no server."""

import json
from importlib.resources import files
from typing import Any

from arm_ext.report.profile.record import ProfileReport


def html(profile: ProfileReport, before: ProfileReport | None = None) -> str:
    """Return the page.

    Args:
        profile: What it shows.
        before: Another profile to compare with, of the same kind: of two packages, two boards, or before and after.
    """
    page = _text("page.html")
    parts = {
        "/*STYLE*/": _text("page.css"),
        "/*PROFILE*/": _data(profile),
        "/*BEFORE*/": "null" if before is None else _data(before),
        "/*SCRIPT*/": _text("page.js"),
        # The last, for it is so long.
        "/*ECHARTS*/": _text("echarts.min.js"),
    }
    for place, text in parts.items():
        page = page.replace(place, text, 1)
    return page


def _text(name: str) -> str:
    return (files("arm_ext.report.profile") / name).read_text()


def _data(profile: ProfileReport) -> str:
    """Return a profile as JSON in which no name of a node can end the script element around it."""
    document: dict[str, Any] = profile.model_dump(mode="json")
    return json.dumps(document).replace("<", "\\u003c")
