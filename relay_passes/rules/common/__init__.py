# SPDX-License-Identifier: Apache-2.0
"""Patterns and checks that are used by several rules."""
