# SPDX-License-Identifier: Apache-2.0
"""The TFLite front end: full-integer, float, hybrid and dynamic-range models."""
