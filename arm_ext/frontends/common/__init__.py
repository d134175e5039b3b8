# SPDX-License-Identifier: Apache-2.0
"""What several front ends need."""
