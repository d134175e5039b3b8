# SPDX-License-Identifier: Apache-2.0
"""Batch sizes that are known only at run time: the proof of batch independence, and the batch loop."""
