# SPDX-License-Identifier: Apache-2.0
"""What would make a model faster: options of `compile` to try, and changes of the model, found in its profile."""
