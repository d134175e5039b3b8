# SPDX-License-Identifier: Apache-2.0
"""Recognition of a TFLite file, which needs none of the reader's 180 modules."""

IDENTIFIER = b"TFL3"
"""Of the flatbuffer, at byte 4."""
