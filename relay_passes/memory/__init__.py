# SPDX-License-Identifier: Apache-2.0
"""Memory planning: one arena for all activations, workspaces of kernels in it, aliases of outputs."""
