# SPDX-License-Identifier: Apache-2.0
"""What leaves for the device: the folder `npu` of a package, and C sources for systems without Linux."""
