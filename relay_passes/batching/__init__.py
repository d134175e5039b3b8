# SPDX-License-Identifier: Apache-2.0
"""Batches of any size: proof that samples are independent, and the loop over them."""
