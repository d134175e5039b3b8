# SPDX-License-Identifier: Apache-2.0
"""The Python API: one function per command, for callers from Python and for the command line."""
