# SPDX-License-Identifier: Apache-2.0
"""The kernels, one a file; `schedules.kernel` is what each provides."""
