# SPDX-License-Identifier: Apache-2.0
"""What follows the sum of a kernel in registers: bias, activation, requantisation, residuals."""
