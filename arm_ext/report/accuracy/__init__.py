# SPDX-License-Identifier: Apache-2.0
"""The report of where a quantised model loses accuracy: its record, and its views as text, CSV and HTML."""
