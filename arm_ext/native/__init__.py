# SPDX-License-Identifier: Apache-2.0
"""All our C and C++, and the one module that builds and caches it."""
