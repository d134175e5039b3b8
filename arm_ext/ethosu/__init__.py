# SPDX-License-Identifier: Apache-2.0
"""Ethos-U: quantised subgraphs are compiled to command streams, which are checked without hardware."""
