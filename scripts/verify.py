#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`arm-ext verify` from a checkout."""

from door import enter

enter("verify")
