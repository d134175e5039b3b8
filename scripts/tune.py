#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`arm-ext tune` from a checkout."""

from door import enter

if __name__ == "__main__":  # worker processes import this file
    enter("tune")
