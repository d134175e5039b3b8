// SPDX-License-Identifier: Apache-2.0
#include "npu_stream.h"

#include <string.h>

namespace arm_ext {
namespace {

// Containers: Vela 5.2, regor/tflite/custom_operator_ethosu.hpp.
constexpr uint32_t kCop1 = 0x31504F43, kCop2 = 0x32504F43, kMetadata = 0x4D554556;  // "VEUM"
constexpr uint32_t kActionConfig = 1, kActionStream = 2, kActionNop = 5;
constexpr uint32_t kCop2Version = 1, kCop2Stream = 1;
constexpr size_t kCop2Header = 16, kCop2Metadata = 28;  // where the metadata's own bytes begin

uint32_t Word(const uint8_t* data, size_t index) {
  uint32_t word;
  memcpy(&word, data + 4 * index, sizeof(word));
  return word;
}

/*! \brief COP1: actions of one word, of which a stream is the last. */
bool Unwrap1(const uint8_t* container, size_t words, Stream* stream) {
  for (size_t at = 1; at < words;) {
    uint32_t action = Word(container, at);
    if ((action & 0xFF) == kActionNop) {
      ++at;
    } else if ((action & 0xFF) == kActionConfig && words - at > 2) {
      stream->config = Word(container, at + 1);
      stream->arch = Word(container, at + 2);
      at += 3;
    } else if ((action & 0xFF) == kActionStream) {
      uint32_t count = (action & 0xFF00) << 8 | action >> 16;
      stream->data = container + 4 * (at + 1);
      stream->bytes = count * 4;
      return count != 0 && count == words - at - 1;
    } else {
      return false;
    }
  }
  return false;
}

/*! \brief COP2: one entry, which begins with metadata of a length that it states. */
bool Unwrap2(const uint8_t* container, size_t size, Stream* stream) {
  if (size < kCop2Metadata + 20 || Word(container, 1) != kCop2Version ||
      Word(container, 2) != size - kCop2Header || Word(container, 4) != kCop2Stream) {
    return false;
  }
  uint32_t entry = Word(container, 5), metadata = Word(container, 6);
  size_t rest = size - kCop2Metadata;
  if (Word(container, 7) != kMetadata || metadata % 4 != 0 || metadata >= rest) return false;
  stream->config = Word(container, 10);
  stream->arch = Word(container, 11);
  stream->data = container + kCop2Metadata + metadata;
  stream->bytes = static_cast<uint32_t>(rest - metadata);
  return uint64_t{entry} == uint64_t{4} + metadata + stream->bytes;
}

}  // namespace

bool Unwrap(const uint8_t* container, size_t size, Stream* stream) {
  *stream = {};
  if (size % 4 != 0 || size < 8) return false;
  if (Word(container, 0) == kCop1) return Unwrap1(container, size / 4, stream);
  return Word(container, 0) == kCop2 && Unwrap2(container, size, stream);
}

}  // namespace arm_ext
