// SPDX-License-Identifier: Apache-2.0
#ifndef ARM_EXT_NATIVE_NPU_SHA256_H_
#define ARM_EXT_NATIVE_NPU_SHA256_H_

#include <stddef.h>
#include <stdint.h>

namespace arm_ext {

constexpr size_t kSha256Bytes = 32;

/*! \brief SHA-256 of `size` bytes (FIPS 180-4). */
void Sha256(const uint8_t* data, size_t size, uint8_t (&digest)[kSha256Bytes]);

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_SHA256_H_
