# SPDX-License-Identifier: Apache-2.0
"""The profile of a package: its record, and its views as text, HTML, CSV and a trace for Perfetto."""
