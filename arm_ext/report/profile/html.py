# SPDX-License-Identifier: Apache-2.0
"""A profile as one HTML file that needs no network and no server."""

from arm_ext.report.html.embed import embedded
from arm_ext.report.profile.record import ProfileReport


def html(profile: ProfileReport, before: ProfileReport | None = None) -> str:
    """Return the page as HTML.

    Args:
        profile: The profile to show.
        before: Another profile to compare with, of the same kind: of two packages, two boards, or before and after.
    """
    return embedded(__package__, {"PROFILE": profile, "BEFORE": before})
