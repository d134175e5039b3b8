# SPDX-License-Identifier: Apache-2.0
"""The phase `canonicalize`: a single form for computations that importers write differently; constants are folded."""
