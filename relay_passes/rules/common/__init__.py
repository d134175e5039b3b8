# SPDX-License-Identifier: Apache-2.0
"""Patterns and checks that several rules share."""
