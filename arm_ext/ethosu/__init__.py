# SPDX-License-Identifier: Apache-2.0
"""Ethos-U backend: quantised subgraphs are compiled to command streams, which are checked without hardware.

options, payload   the options of `--npu`, and the file format of one region, which all packages below use
tosa               construction of TOSA graphs; TOSA's reference model
model              functional model of the hardware, which executes payloads; limits of Linux's driver
ops                the operators, one per file, and their constraints
vela               Arm's compiler Vela: TOSA → payload and estimates; its configuration
partition          the division of a model between NPU and CPU, from the integer graph to the report
export             files for the device: a package's folder `npu`, C sources for bare metal

A package imports only those listed above it.
"""
