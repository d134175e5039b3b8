# SPDX-License-Identifier: Apache-2.0
"""What several rooms share: names, arrays, text, worker processes."""
