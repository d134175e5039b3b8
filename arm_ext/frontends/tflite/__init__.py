# SPDX-License-Identifier: Apache-2.0
"""TFLite: full-integer, float, hybrid and dynamic-range models."""
