# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export, float and quantised."""
