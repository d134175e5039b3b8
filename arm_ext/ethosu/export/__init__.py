# SPDX-License-Identifier: Apache-2.0
"""Files for the device: the folder `npu` of a package, and C sources for systems without Linux."""
