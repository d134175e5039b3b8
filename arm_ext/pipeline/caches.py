# SPDX-License-Identifier: Apache-2.0
"""The kinds of entries that compiling caches, in a module that does not load TVM."""

from arm_ext.common.cache import Entries

KERNELS = Entries("kernels", limit=1 << 30)
"""Choices, outlines and objects of kernels; a MobileNetV2 has 2 to 5 MB of them for the target and the self-test."""

SELFTESTS = Entries("selftests", limit=1 << 28)
"""Outputs of models on this machine, as a self-test without inputs."""
