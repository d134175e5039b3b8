# SPDX-License-Identifier: Apache-2.0
"""Compilation targets: CPU profiles, NPUs, the linker, and the check of generated instructions."""
