# SPDX-License-Identifier: Apache-2.0
"""Modules shared by several front ends."""
