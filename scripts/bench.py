#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`arm-ext bench` from a checkout."""

import sys

from arm_ext.cli import main

main(["bench", *sys.argv[1:]])
