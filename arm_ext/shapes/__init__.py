# SPDX-License-Identifier: Apache-2.0
"""The shapes of `--shape`: fixed sizes, several shapes, any number of samples, bounded lengths."""
