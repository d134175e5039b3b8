# SPDX-License-Identifier: Apache-2.0
"""Files for a device with an Ethos-U: the folder `npu` of a package, and C sources for systems without Linux."""
