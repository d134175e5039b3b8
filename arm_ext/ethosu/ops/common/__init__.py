# SPDX-License-Identifier: Apache-2.0
"""What several NPU operators share."""
