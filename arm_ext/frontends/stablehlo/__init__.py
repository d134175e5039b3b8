# SPDX-License-Identifier: Apache-2.0
"""The StableHLO front end, for text and bytecode."""
