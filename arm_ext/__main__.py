# SPDX-License-Identifier: Apache-2.0
"""`python -m arm_ext`: the command line, for when the command `arm-ext` is not on PATH."""

from arm_ext.cli import main

if __name__ == "__main__":  # worker processes import this file
    main()
