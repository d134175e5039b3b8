# SPDX-License-Identifier: Apache-2.0
"""Reports of what became of each source node, as records and as text."""
