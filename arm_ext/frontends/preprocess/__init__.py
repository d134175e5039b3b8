# SPDX-License-Identifier: Apache-2.0
"""Steps before and after a model in the same package: `--preprocess`."""
