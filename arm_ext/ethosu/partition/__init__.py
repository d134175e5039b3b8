# SPDX-License-Identifier: Apache-2.0
"""The division of a model between NPU and CPU.

divider            one division with its report; `phase` makes it a phase of the pipeline
read               integer graph → operators; `unsupported` gives the reason why a call is not one
parts              operators → convex subgraphs that run in one submission
emit               a subgraph → TOSA
offload            subgraphs → compiled regions that are faster than the CPU; all others, with reasons
cpu_cost           cycles of an operator on the CPU; `layers`: on the NPU; `offload_cost` compares them
borders            the reason why each tensor crosses a region's border; `two_of_four`: savings of sparse weights
demands            checks of the division that the user asked for
region_values      values of each region as computed by the CPU; `agreement`: whether the NPU computes the same
"""
