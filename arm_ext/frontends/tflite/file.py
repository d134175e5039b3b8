# SPDX-License-Identifier: Apache-2.0
"""Recognition of TFLite files without importing the reader and its 180 modules."""

IDENTIFIER = b"TFL3"
"""File identifier of the flatbuffer, at byte 4."""
