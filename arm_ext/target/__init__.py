# SPDX-License-Identifier: Apache-2.0
"""What is compiled for: CPU profiles, the linker, and the gate on the instructions that come out."""
