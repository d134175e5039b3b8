# SPDX-License-Identifier: Apache-2.0
"""The TOSA emitter: regions of integer operators as TOSA 1.0 graphs."""

from arm_ext.ethosu.tosa.emit import EMITTERS, emit

__all__ = ["EMITTERS", "emit"]
