# SPDX-License-Identifier: Apache-2.0
"""The phase `precision`: float models are converted to binary16 or bfloat16."""
