# SPDX-License-Identifier: Apache-2.0
"""Files that commands write and read: what may be replaced, scratch folders, and what a full disk leads to."""
