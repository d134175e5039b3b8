# SPDX-License-Identifier: Apache-2.0
"""Modules shared by several parts of the package: names, arrays, text, worker processes."""
