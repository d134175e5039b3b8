# SPDX-License-Identifier: Apache-2.0
"""Pre- and post-processing in the package of a model: `--preprocess`."""
