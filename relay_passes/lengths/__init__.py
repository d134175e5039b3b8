# SPDX-License-Identifier: Apache-2.0
"""Bounded lengths: a model with a dimension of run time, merged from static models for several lengths."""
