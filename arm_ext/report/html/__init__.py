# SPDX-License-Identifier: Apache-2.0
"""Reports as one HTML file each: their style, chart library, and the scripts that they share."""
