# SPDX-License-Identifier: Apache-2.0
"""Memory planning: one arena for all activations and kernel workspaces, and alias analysis of outputs."""
