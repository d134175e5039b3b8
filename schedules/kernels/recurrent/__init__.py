# SPDX-License-Identifier: Apache-2.0
"""Layers that walk a sequence step by step."""
