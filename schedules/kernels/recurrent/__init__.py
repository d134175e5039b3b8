# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers (LSTM, GRU, RNN): kernels that compute all steps of a sequence in one loop."""
