# SPDX-License-Identifier: Apache-2.0
"""Networks for tables and tests: one architecture a file, as its paper has it, with random weights."""
