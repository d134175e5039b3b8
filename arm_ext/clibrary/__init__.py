# SPDX-License-Identifier: Apache-2.0
"""C libraries: a model as a static library with a header, without a runtime."""
