# SPDX-License-Identifier: Apache-2.0
"""Comparison with other runtimes: their aarch64 wheels run on the same emulator, which counts their instructions."""
