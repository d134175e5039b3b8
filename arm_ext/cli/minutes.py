# SPDX-License-Identifier: Apache-2.0
"""The option type for durations."""

import click

_UNITS = {"s": 1 / 60, "m": 1.0, "h": 60.0}


class Minutes(click.ParamType[float]):
    """Option type of a duration: 30m, 2h, 90s or a number of minutes → minutes."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the option."""
        number, factor = (value[:-1], _UNITS[value[-1]]) if value[-1:] in _UNITS else (value, 1.0)
        try:
            minutes = float(number) * factor
        except ValueError:
            minutes = 0.0
        if not 0 < minutes < float("inf"):
            self.fail(f"{value!r} is no time such as 30m, 2h or 90s", param, ctx)
        return minutes
