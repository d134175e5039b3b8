# SPDX-License-Identifier: Apache-2.0
"""The phase `precision`: float models computed in binary16 or bfloat16."""
