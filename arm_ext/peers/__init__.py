# SPDX-License-Identifier: Apache-2.0
"""Other runtimes on the same work: their own aarch64 wheels on the emulator, counted between the same marks."""
