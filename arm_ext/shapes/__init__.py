# SPDX-License-Identifier: Apache-2.0
"""What `--shape` asks for: fixed sizes, several shapes, any number of samples, bounded lengths."""
