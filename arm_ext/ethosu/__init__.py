# SPDX-License-Identifier: Apache-2.0
"""Ethos-U: quantised subgraphs are compiled to command streams, which are checked without hardware.

options, payload   what `--npu` takes, and the file of one region: what the rooms below have in common
tosa               TOSA graphs under construction; the specification's reference model
model              what a payload computes, by a functional model; what Linux's driver refuses
ops                the operators, one a file, and their constraints
vela               Vela: TOSA → payload and estimates; its configuration
partition          the division of a model between NPU and CPU, from the integer graph to the report
export             what leaves: a package's folder `npu`, C sources for bare metal

A room imports those above it alone.
"""
