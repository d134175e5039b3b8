# SPDX-License-Identifier: Apache-2.0
"""Front ends: each reads a model file and returns an `ImportedModel` in QDQ form with source names."""

from arm_ext.frontends.common.imported import ImportedModel, TensorSpec

__all__ = ["ImportedModel", "TensorSpec"]
