# SPDX-License-Identifier: Apache-2.0
"""Pre- and post-processing that is compiled into a model's package: `--preprocess`."""
