# SPDX-License-Identifier: Apache-2.0
"""Bounded lengths: a model with a run-time dimension, made from static models of several lengths."""
