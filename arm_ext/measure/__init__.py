# SPDX-License-Identifier: Apache-2.0
"""Measuring a package: time on a real board, instruction counts and cycle estimates on a virtual one."""
