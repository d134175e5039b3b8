# SPDX-License-Identifier: Apache-2.0
"""The first phase: one form for what importers write in many."""
