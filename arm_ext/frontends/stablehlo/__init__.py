# SPDX-License-Identifier: Apache-2.0
"""StableHLO, as text or bytecode."""
