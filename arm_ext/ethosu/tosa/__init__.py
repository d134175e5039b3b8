# SPDX-License-Identifier: Apache-2.0
"""TOSA 1.0: graphs under construction, what emission of operators shares, and the reference model."""
