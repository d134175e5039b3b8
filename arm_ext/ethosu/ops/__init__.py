# SPDX-License-Identifier: Apache-2.0
"""The operators of an Ethos-U, one a file: patterns that find it, attributes, limits, TOSA form and Vela's quirks.

`registry` lists them, `constraints` their limits; `common.operators` is the graph that they form, and `common.contract`
says what a file provides.
"""
