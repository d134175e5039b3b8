# SPDX-License-Identifier: Apache-2.0
"""The StableHLO front end, for text and bytecode."""

import os

# Hide XLA's log about its devices, but not its warnings; XLA reads this variable when jaxlib is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
