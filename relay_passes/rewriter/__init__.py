# SPDX-License-Identifier: Apache-2.0
"""The rewrite engine: rules, patterns, near misses, and records of applied rules."""
