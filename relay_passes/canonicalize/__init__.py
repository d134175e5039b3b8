# SPDX-License-Identifier: Apache-2.0
"""The phase `canonicalize`: one form for what importers write in several, with constants folded."""
