# SPDX-License-Identifier: Apache-2.0
"""Models in which a dimension, such as a sequence's length, is known at run time: from static ones of some lengths."""
