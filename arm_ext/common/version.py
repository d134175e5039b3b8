# SPDX-License-Identifier: Apache-2.0
"""The version of the distribution."""

__version__ = "0.1.0"
