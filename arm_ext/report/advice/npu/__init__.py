# SPDX-License-Identifier: Apache-2.0
"""Estimates of a model on each Ethos-U: their record, and its views as text, CSV and HTML."""
