# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees."""
