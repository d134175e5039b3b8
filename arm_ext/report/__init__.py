# SPDX-License-Identifier: Apache-2.0
"""What became of each source node, as records and as text."""
