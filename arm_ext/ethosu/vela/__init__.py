# SPDX-License-Identifier: Apache-2.0
"""Vela, Arm's compiler for Ethos-U: its configuration, and compilation in this process."""
