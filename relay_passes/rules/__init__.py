# SPDX-License-Identifier: Apache-2.0
"""The rewrite rules, one per file, which is named by the rule's effect."""
