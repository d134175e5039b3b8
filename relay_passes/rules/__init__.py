# SPDX-License-Identifier: Apache-2.0
"""The rules, one a file, named by its effect."""
