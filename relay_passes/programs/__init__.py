# SPDX-License-Identifier: Apache-2.0
"""Modules with several functions: outlining, merging, dispatch by shape and by device, and state between steps."""
