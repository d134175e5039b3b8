# SPDX-License-Identifier: Apache-2.0
"""The operators of an Ethos-U, one per file: patterns, attributes, limits, TOSA form and defects of Vela.

`registry` lists them, `constraints` their limits; `common.operators` is the graph that they form, and `common.contract`
says what a file provides.
"""
