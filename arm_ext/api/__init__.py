# SPDX-License-Identifier: Apache-2.0
"""The Python API: what each command does, for callers from Python and for the command line."""
