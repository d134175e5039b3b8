# SPDX-License-Identifier: Apache-2.0
"""Computing float models in binary16 or bfloat16."""
