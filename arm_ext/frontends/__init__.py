# SPDX-License-Identifier: Apache-2.0
"""Front ends: a model file in, an `ImportedModel` in QDQ form with source names out."""

from arm_ext.frontends.common.imported import ImportedModel, TensorSpec

__all__ = ["ImportedModel", "TensorSpec"]
