# SPDX-License-Identifier: Apache-2.0
"""Measurement of a package: times on a real board, instruction counts and cycle estimates on a virtual one."""
