# SPDX-License-Identifier: Apache-2.0
"""What the verbs do, from Python and from the command line."""
