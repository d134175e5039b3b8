# SPDX-License-Identifier: Apache-2.0
"""Removal of channels that are constant or that nothing reads, through a whole function."""

from relay_passes.channels.remove_channels import RemovedChannels, remove_channels

__all__ = ["RemovedChannels", "remove_channels"]
