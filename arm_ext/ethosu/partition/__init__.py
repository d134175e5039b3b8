# SPDX-License-Identifier: Apache-2.0
"""The division of a model between NPU and CPU.

divider            one division with its report; `phase` makes it a phase of the pipeline
read               integer graph → operators; `unsupported` says why a call is none
parts              operators → parts that run at one go
emit               a part → TOSA
offload            parts → compiled regions that gain; the rest, with reasons
cpu_cost           cycles of an operator on the CPU; `layers`: on the NPU; `offload_cost` compares them
borders            why each tensor crosses a border; `two_of_four`: what sparse weights save
demands            what the user demands of the division
region_values      what the CPU computes for each region; `agreement`: whether the NPU computes the same
"""
