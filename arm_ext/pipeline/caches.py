# SPDX-License-Identifier: Apache-2.0
"""The kinds of cache entries that compiling creates, in a module that does not load TVM."""

from arm_ext.common.cache import Entries

KERNEL_ENTRIES = Entries("kernels", limit=1 << 30)
"""Choices, stubs and objects of kernels; a MobileNetV2 has 2 to 5 MB of them for the target and the self-test."""

SELFTEST_ENTRIES = Entries("selftests", limit=1 << 28)
"""Outputs of models on this machine, as a self-test without inputs."""
