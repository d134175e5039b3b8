# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the front ends: each operator as a function of values, with its error bound.

One file a family. A front end is a table from its format's operators to these functions.
"""
