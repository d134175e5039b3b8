# SPDX-License-Identifier: Apache-2.0
"""The StableHLO front end, for text and bytecode."""

import os

# XLA's log of its devices is no message for a user; its warnings are. It reads this as jaxlib is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
