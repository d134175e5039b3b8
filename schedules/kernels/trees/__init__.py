# SPDX-License-Identifier: Apache-2.0
"""Kernels of decision tree ensembles."""
