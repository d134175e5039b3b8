// SPDX-License-Identifier: Apache-2.0
// The payload of a region, checked; its layout stands in arm_ext/ethosu/payload.py.
#ifndef ARM_EXT_NATIVE_NPU_PAYLOAD_H_
#define ARM_EXT_NATIVE_NPU_PAYLOAD_H_

#include <stddef.h>
#include <stdint.h>

#include "npu_abi.h"
#include "npu_failure.h"
#include "npu_sha256.h"

namespace arm_ext {

constexpr int kMaxRank = 6;
constexpr int kMaxTensors = 64;  // inputs and outputs of one region

enum class Kind : uint32_t { kWeights, kScratch, kFast, kInput, kOutput };

/*! \brief A memory area that commands address; its number is its index, and 0 bytes: there is none.
 */
struct Region {
  Kind kind;
  uint64_t size;
};

/*! \brief An input or output: packed, in C order. */
struct Tensor {
  uint32_t region;
  uint8_t dtype_code, dtype_bits;  // of DLPack
  uint32_t rank;
  uint64_t offset, size;
  int64_t shape[kMaxRank];
};

/*! \brief A payload's tables, and where in its bytes the rest lies. */
struct Payload {
  uint8_t digest[kSha256Bytes];
  char accelerator[17];
  uint32_t config, arch;
  Region regions[abi::kRegions];
  uint32_t inputs, outputs;
  Tensor tensors[kMaxTensors];  // inputs, then outputs
  const uint8_t* commands;      // the stream without its container
  uint32_t command_bytes;
  const uint8_t* weights;
  uint32_t weight_bytes;
};

/*! \brief The hash that a payload states, or null if it is too short to state one. */
const uint8_t* StatedDigest(const uint8_t* data, size_t size);

/*! \brief Reads a payload of which every byte is untrusted; what it returns says what is wrong. */
Failure ReadPayload(const uint8_t* data, size_t size, Payload* payload);

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_PAYLOAD_H_
