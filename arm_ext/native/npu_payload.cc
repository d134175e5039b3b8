// SPDX-License-Identifier: Apache-2.0
#include "npu_payload.h"

#include <dlpack/dlpack.h>
#include <string.h>

#include "npu_stream.h"

namespace arm_ext {
namespace {

constexpr uint8_t kMagic[8] = {'E', 'T', 'H', 'O', 'S', 'U', '\r', '\n'};
constexpr uint32_t kFormat = 1;
constexpr size_t kVersionAt = 8, kSizeAt = 12, kDigestAt = 16, kBodyAt = 48;
constexpr size_t kConfigAt = 64, kArchAt = 68, kCountsAt = 72, kCommandsAt = 84, kWeightsAt = 92;
constexpr size_t kTablesAt = 116;
constexpr size_t kRegionBytes = 16, kTensorBytes = 72, kAlignment = 16;

struct Dtype {
  uint8_t code, bits;
};
// bool, int8, uint8, int16, uint16, int32, uint32, int64
constexpr Dtype kDtypes[] = {{kDLBool, 8},  {kDLInt, 8},  {kDLUInt, 8},  {kDLInt, 16},
                             {kDLUInt, 16}, {kDLInt, 32}, {kDLUInt, 32}, {kDLInt, 64}};
constexpr uint32_t kDtypeCount = sizeof(kDtypes) / sizeof(kDtypes[0]);

uint32_t U32(const uint8_t* p) {
  uint32_t value;
  memcpy(&value, p, sizeof(value));
  return value;
}

uint64_t U64(const uint8_t* p) {
  uint64_t value;
  memcpy(&value, p, sizeof(value));
  return value;
}

Failure CheckPrefix(const uint8_t* data, size_t size) {
  if (size < kTablesAt)
    return Failed(Scope::kRegion, "it has %zu bytes, fewer than its header; it is truncated", size);
  if (memcmp(data, kMagic, sizeof(kMagic)) != 0)
    return Failed(Scope::kRegion, "it does not begin as a payload does");
  if (U32(data + kVersionAt) != kFormat) {
    return Failed(Scope::kRegion, "its format is %u, not %u; compile the model again",
                  U32(data + kVersionAt), kFormat);
  }
  if (U32(data + kSizeAt) != size) {
    return Failed(Scope::kRegion,
                  "it has %zu bytes, not %u as it states; it is truncated or extended", size,
                  U32(data + kSizeAt));
  }
  uint8_t digest[kSha256Bytes];
  Sha256(data + kBodyAt, size - kBodyAt, digest);
  if (memcmp(digest, data + kDigestAt, sizeof(digest)) != 0) {
    return Failed(Scope::kRegion, "it does not have the hash that it states; it is altered");
  }
  return {};
}

/*! \brief Whether `bytes` at the offset that the header states at `at` lie within the payload. */
bool Area(const uint8_t* data, size_t size, size_t at, const uint8_t** begin, uint32_t* bytes) {
  uint32_t offset = U32(data + at);
  *bytes = U32(data + at + 4);
  *begin = data + offset;
  return offset % kAlignment == 0 && offset <= size && *bytes <= size - offset;
}

Failure ReadRegions(const uint8_t* record, uint32_t count, Payload* payload) {
  for (uint32_t i = 0; i < count; ++i, record += kRegionBytes) {
    uint32_t number = U32(record), kind = U32(record + 4);
    if (number >= abi::kRegions || kind > static_cast<uint32_t>(Kind::kOutput) ||
        payload->regions[number].size != 0) {
      return Failed(Scope::kRegion,
                    "its region %u of kind %u is not one that a payload has, or stands twice",
                    number, kind);
    }
    payload->regions[number] = {static_cast<Kind>(kind), U64(record + 8)};
    if (static_cast<Kind>(kind) == Kind::kWeights && U64(record + 8) != payload->weight_bytes) {
      return Failed(Scope::kRegion, "its region %u is not of the %u bytes of its weights", number,
                    payload->weight_bytes);
    }
  }
  return {};
}

Failure ReadTensor(const uint8_t* record, uint32_t index, Payload* payload) {
  Tensor* tensor = &payload->tensors[index];
  uint32_t dtype = U32(record + 12);
  tensor->region = U32(record + 8);
  tensor->rank = U32(record + 44);
  tensor->offset = U64(record + 16);
  tensor->size = U64(record + 24);
  if (dtype >= kDtypeCount || tensor->rank > kMaxRank || tensor->region >= abi::kRegions) {
    return Failed(Scope::kRegion,
                  "its tensor %u has dtype %u, rank %u, region %u, and there is no such", index,
                  dtype, tensor->rank, tensor->region);
  }
  tensor->dtype_code = kDtypes[dtype].code;
  tensor->dtype_bits = kDtypes[dtype].bits;
  uint64_t bytes = kDtypes[dtype].bits / 8;
  bool whole = true;
  for (uint32_t axis = 0; axis < tensor->rank; ++axis) {
    tensor->shape[axis] = U32(record + 48 + 4 * axis);
    whole &= !__builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor->shape[axis]), &bytes);
  }
  const Region& region = payload->regions[tensor->region];
  if (!whole || bytes != tensor->size || tensor->size > region.size ||
      tensor->offset > region.size - tensor->size) {
    return Failed(Scope::kRegion, "its tensor %u of %llu bytes does not fit region %u", index,
                  static_cast<unsigned long long>(tensor->size), tensor->region);
  }
  if (region.kind == Kind::kWeights || region.kind == Kind::kFast) {
    return Failed(Scope::kRegion,
                  "its tensor %u lies in region %u, which is none of inputs or outputs", index,
                  tensor->region);
  }
  return {};
}

/*! \brief Whether the accelerator's name, such as "ethos-u65-256", and CONFIG say the same. */
bool NameMatches(const Payload& payload) {
  char name[sizeof(payload.accelerator)];
  constexpr const char* kProducts[] = {"u55", "u65", "u85"};
  uint32_t product = payload.config >> 28;
  if (product > 2) return false;
  snprintf(name, sizeof(name), "ethos-%s-%u", kProducts[product], 1u << (payload.config & 0xF));
  return strcmp(name, payload.accelerator) == 0;
}

Failure ReadTables(const uint8_t* data, size_t size, Payload* payload) {
  uint32_t regions = U32(data + kCountsAt);
  payload->inputs = U32(data + kCountsAt + 4);
  payload->outputs = U32(data + kCountsAt + 8);
  if (regions > abi::kRegions || payload->inputs > kMaxTensors ||
      payload->outputs > kMaxTensors - payload->inputs || payload->outputs == 0) {
    return Failed(Scope::kRegion,
                  "it has %u regions, %u inputs and %u outputs, more than there can be, or nothing",
                  regions, payload->inputs, payload->outputs);
  }
  uint32_t tensors = payload->inputs + payload->outputs;
  if (size - kTablesAt < regions * kRegionBytes + tensors * kTensorBytes) {
    return Failed(Scope::kRegion, "its tables reach beyond its %zu bytes", size);
  }
  if (Failure bad = ReadRegions(data + kTablesAt, regions, payload)) return bad;
  const uint8_t* record = data + kTablesAt + regions * kRegionBytes;
  for (uint32_t i = 0; i < tensors; ++i, record += kTensorBytes) {
    if (Failure bad = ReadTensor(record, i, payload)) return bad;
  }
  return {};
}

}  // namespace

const uint8_t* StatedDigest(const uint8_t* data, size_t size) {
  return size < kBodyAt ? nullptr : data + kDigestAt;
}

Failure ReadPayload(const uint8_t* data, size_t size, Payload* payload) {
  *payload = {};
  if (Failure bad = CheckPrefix(data, size)) return bad;
  memcpy(payload->digest, data + kDigestAt, kSha256Bytes);
  memcpy(payload->accelerator, data + kBodyAt, sizeof(payload->accelerator) - 1);
  payload->config = U32(data + kConfigAt);
  payload->arch = U32(data + kArchAt);
  if (!NameMatches(*payload)) {
    return Failed(Scope::kRegion, "the accelerator that it names is not that of configuration %#x",
                  payload->config);
  }
  const uint8_t* container;
  uint32_t container_bytes;
  if (!Area(data, size, kCommandsAt, &container, &container_bytes) ||
      !Area(data, size, kWeightsAt, &payload->weights, &payload->weight_bytes)) {
    return Failed(Scope::kRegion, "its commands or weights reach beyond its %zu bytes", size);
  }
  if (Failure bad = ReadTables(data, size, payload)) return bad;
  Stream stream;
  if (!Unwrap(container, container_bytes, &stream)) {
    return Failed(Scope::kRegion, "its %u bytes of commands are neither COP1 nor COP2",
                  container_bytes);
  }
  if (stream.config != payload->config || stream.arch != payload->arch) {
    return Failed(
        Scope::kRegion,
        "its commands are for configuration %#x, architecture %#x, its header for %#x, %#x",
        stream.config, stream.arch, payload->config, payload->arch);
  }
  payload->commands = stream.data;
  payload->command_bytes = stream.bytes;
  return {};
}

}  // namespace arm_ext
