# SPDX-License-Identifier: Apache-2.0
"""What a model would take on each Ethos-U: its record, and its views as text, CSV and HTML."""
