#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`arm-ext run` from a checkout."""

import sys

from arm_ext.cli import main

main(["run", *sys.argv[1:]])
