# SPDX-License-Identifier: Apache-2.0
"""3 x 3 convolutions by Winograd transforms."""
