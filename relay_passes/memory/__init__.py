# SPDX-License-Identifier: Apache-2.0
"""Memory planning: one arena for all activations, kernel workspaces in it, alias analysis of outputs."""
