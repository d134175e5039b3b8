// SPDX-License-Identifier: Apache-2.0
#include "npu_session.h"

#include <string.h>
#include <unistd.h>

#include "npu_system.h"

namespace arm_ext {
namespace {

/*! \brief Whether a tensor is what the payload states, in one piece. */
bool Fits(const DLTensor& given, const Tensor& stated) {
  if (given.device.device_type != kDLCPU || given.dtype.lanes != 1 ||
      given.dtype.code != stated.dtype_code || given.dtype.bits != stated.dtype_bits ||
      given.ndim != static_cast<int32_t>(stated.rank)) {
    return false;
  }
  int64_t stride = 1;
  for (int32_t axis = given.ndim - 1; axis >= 0; --axis) {
    if (given.shape[axis] != stated.shape[axis]) return false;
    if (given.strides != nullptr && given.shape[axis] != 1 && given.strides[axis] != stride) {
      return false;
    }
    stride *= given.shape[axis];
  }
  return true;
}

// The driver's buffers are contiguous and within 40 bits; more than this is a stride that it
// misunderstood.
constexpr uint64_t kMostOfRegion = uint64_t{1} << 32;

uint64_t Larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/*! \brief Whether a region is the device's own SRAM, for which there is no buffer. */
bool IsSram(const Payload& payload, int region) {
  return region == abi::kSramRegion && payload.regions[region].kind == Kind::kFast;
}

/*! \brief Gives the device the weights and the commands, which it keeps. */
Failure Load(const Call& call, const Device& device, Session* session) {
  if (session->loaded && session->generation == device.generation) return {};
  Payload* payload = &session->payload;
  session->loaded = false;
  session->commands = session->weights = {};
  if (Failure bad = ReadPayload(call.payload, call.payload_bytes, payload)) return bad;
  if (Failure bad = CheckMatch(*payload, device.info, device.path)) return bad;
  if (payload->weight_bytes != 0) {
    uint64_t size = payload->weight_bytes;
    for (int i = 0; i < abi::kRegions; ++i) {
      if (payload->regions[i].kind == Kind::kWeights) size = Larger(size, session->view.sizes[i]);
    }
    if (Failure bad = Reserve(device, size, &session->weights)) return bad;
    memcpy(session->weights.memory, payload->weights, payload->weight_bytes);
    Unmap(session->weights.memory, session->weights.size);
    session->weights.memory = nullptr;
  }
  Failure bad = LoadCommands(device, *payload, &session->commands.handle);
  if (bad) {
    Free(device, &session->weights);
    return bad;
  }
  session->loaded = true;
  session->generation = device.generation;
  return {};
}

/*! \brief Finds room for what all regions share, and names the buffer of each region that is used.
 */
Failure Place(const Session& session, Device* device, abi::Job* job) {
  const Payload& payload = session.payload;
  *job = {session.commands.handle, 0, {}};
  for (int i = 0; i < abi::kRegions; ++i) {
    const Region& region = payload.regions[i];
    uint64_t used = session.view.sizes[i];
    if (IsSram(payload, i)) {
      job->sram_size = static_cast<uint32_t>(region.size);
    } else if (used != 0 && region.size != 0 && region.kind == Kind::kWeights) {
      job->regions[i] = session.weights.handle;
    } else if (used != 0) {
      if (Failure bad = Reserve(*device, Larger(region.size, used), &device->shared[i])) return bad;
      job->regions[i] = device->shared[i].handle;
    }
  }
  return {};
}

/*! \brief Whether Linux's driver can run a stream, and see which of a payload's regions it uses and
 * writes. */
Failure CheckView(const Payload& payload, const DriverView& view) {
  if (view.resizes) {
    return Failed(Scope::kRegion, "Linux's driver does not know RESIZE, which its commands have");
  }
  for (int i = 0; i < abi::kRegions; ++i) {
    if (view.sizes[i] > kMostOfRegion) {
      return Failed(
          Scope::kRegion,
          "Linux's driver takes its commands to reach far beyond region %d (negative strides?)", i);
    }
    // It refuses a buffer for a region that it does not see used, and without one the NPU reads
    // elsewhere.
    if (view.indices >> i & 1 && view.sizes[i] == 0) {
      return Failed(Scope::kRegion,
                    "Linux's driver does not see that its commands read indices in region %d", i);
    }
  }
  for (uint32_t i = 0; i < payload.inputs + payload.outputs; ++i) {
    uint32_t region = payload.tensors[i].region;
    bool written = i < payload.inputs || (view.written >> region & 1);
    if (view.sizes[region] == 0 || !written) {
      return Failed(Scope::kRegion, "Linux's driver does not see that its commands use region %u",
                    region);
    }
  }
  return {};
}

}  // namespace

Failure CheckTensors(const Call& call, const Payload& payload) {
  uint32_t wanted = payload.inputs + payload.outputs;
  if (call.tensor_count != static_cast<int32_t>(wanted)) {
    return Failed(Scope::kRegion, "it has %u tensors, the call %d", wanted, call.tensor_count);
  }
  for (uint32_t i = 0; call.tensors != nullptr && i < wanted; ++i) {
    if (!Fits(*call.tensors[i], payload.tensors[i])) {
      return Failed(Scope::kRegion, "tensor %u of the call is not of the type and shape it states",
                    i);
    }
  }
  return {};
}

Failure Execute(const Call& call, int64_t timeout_ms, Device* device, Session* session) {
  const Payload& payload = session->payload;
  if (device->fd >= 0 && device->owner != getpid()) Close(device);
  if (Failure bad = CheckView(payload, session->view)) return bad;
  if (device->fd < 0) {
    if (Failure bad = Open(payload, device)) return bad;
  }
  if (Failure bad = Load(call, *device, session)) return bad;
  abi::Job job;
  if (Failure bad = Place(*session, device, &job)) return bad;
  for (uint32_t i = 0; i < payload.inputs; ++i) {
    const Tensor& tensor = payload.tensors[i];
    memcpy(device->shared[tensor.region].memory + tensor.offset, call.data[i], tensor.size);
  }
  bool submitted = false;
  uint32_t written = job.regions[payload.tensors[payload.inputs].region];
  Failure failure = RunJob(*device, job, written, timeout_ms, &submitted);
  if (failure) {
    if (submitted) Close(device);  // the NPU may write to the buffers yet
    return failure;
  }
  for (uint32_t i = payload.inputs; i < payload.inputs + payload.outputs; ++i) {
    const Tensor& tensor = payload.tensors[i];
    memcpy(call.data[i], device->shared[tensor.region].memory + tensor.offset, tensor.size);
  }
  return {};
}

}  // namespace arm_ext
