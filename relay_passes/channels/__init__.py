# SPDX-License-Identifier: Apache-2.0
"""Removal of constant and unused channels across the operators of a function."""

from relay_passes.channels.remove_channels import RemovedChannels, remove_channels

__all__ = ["RemovedChannels", "remove_channels"]
