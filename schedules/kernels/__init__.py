# SPDX-License-Identifier: Apache-2.0
"""The hand-written kernels, one folder per family; `schedules.kernels.common.contract` is their interface."""
