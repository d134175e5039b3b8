# SPDX-License-Identifier: Apache-2.0
"""Comparison with other runtimes: their aarch64 wheels run on the emulator, with instructions counted likewise."""
