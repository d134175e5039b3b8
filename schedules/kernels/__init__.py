# SPDX-License-Identifier: Apache-2.0
"""The kernels, one folder a family; `schedules.kernels.common.contract` is what each kernel provides."""
