# SPDX-License-Identifier: Apache-2.0
"""Layer norm and RMS norm."""
