# SPDX-License-Identifier: Apache-2.0
"""Reports of how and where each source node is computed, as records and as text."""
