# SPDX-License-Identifier: Apache-2.0
"""Where a quantised model loses accuracy: the record, and its views as text, CSV and HTML."""
