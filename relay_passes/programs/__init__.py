# SPDX-License-Identifier: Apache-2.0
"""Programs of several functions: outlining, merging, dispatch by shape and by device, and state between steps."""
