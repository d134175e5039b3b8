# SPDX-License-Identifier: Apache-2.0
"""Ethos-U: quantised subgraphs to command streams that are checked without hardware."""
