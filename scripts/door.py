# SPDX-License-Identifier: Apache-2.0
"""Start of a command-line verb from a checkout, for the scripts of this folder."""

import sys

_ENVIRONMENT = 3  # the exit code of arm_ext.common.errors.EnvError, which may be out of reach here


def enter(verb: str) -> None:
    """Run `arm-ext VERB` with this process's arguments."""
    try:
        from arm_ext.cli import main
    except ModuleNotFoundError as err:
        sys.stderr.write(
            f"error: {err.name} is not installed here; run scripts/setup.sh, then .venv/bin/python {sys.argv[0]}\n"
        )
        sys.exit(_ENVIRONMENT)
    main([verb, *sys.argv[1:]])
