# SPDX-License-Identifier: Apache-2.0
"""The rewrite engine: rules, the patterns they match, near misses, and records of what rules did."""
