# SPDX-License-Identifier: Apache-2.0
"""Advice on faster inference: options of `compile` to try, and changes of the model, derived from its profile."""
