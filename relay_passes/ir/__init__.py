# SPDX-License-Identifier: Apache-2.0
"""Utilities for Relax: source names, shapes, calls, and running TVM's passes without losing source names."""
