# SPDX-License-Identifier: Apache-2.0
"""The C and C++ sources of the project, and the module that builds and caches them."""
