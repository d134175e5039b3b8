# SPDX-License-Identifier: Apache-2.0
"""Modules that several parts of the package share: names, arrays, text, worker processes."""
