# SPDX-License-Identifier: Apache-2.0
"""The PyTorch front end: programs of torch.export, float and quantised."""
