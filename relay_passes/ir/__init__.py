# SPDX-License-Identifier: Apache-2.0
"""Reading and writing Relax: source names, shapes, calls, and upstream passes that keep source names."""
