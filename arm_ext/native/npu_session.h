// SPDX-License-Identifier: Apache-2.0
// One region of a model: its payload, checked, and what a device holds of it. Nothing here locks.
#ifndef ARM_EXT_NATIVE_NPU_SESSION_H_
#define ARM_EXT_NATIVE_NPU_SESSION_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#include "npu_device.h"
#include "npu_failure.h"
#include "npu_payload.h"
#include "npu_stream.h"

namespace arm_ext {

/*! \brief What a call of a region brings. */
struct Call {
  int64_t region;
  const void* model;  // null, or what tells the regions of several models apart
  bool fail;  // raise what goes wrong on the NPU, where the region would run on the CPU instead
  const uint8_t* payload;
  size_t payload_bytes;
  const DLTensor* const* tensors;  // inputs, then outputs, to be checked; null if they need not be
  uint8_t* const* data;            // where they begin
  int32_t tensor_count;
};

struct Session {
  Session* next;
  int64_t region;
  const void* model;
  Payload payload;  // what it points at is of the call that read it
  DriverView view;
  bool loaded;
  uint32_t generation;  // of the device that holds what follows
  Buffer commands, weights;
  Failure failure;  // of the last call
  uint64_t on_npu, on_cpu;
};

/*! \brief Whether the tensors of a call are those of the payload, each in one piece. */
Failure CheckTensors(const Call& call, const Payload& payload);

/*! \brief Runs a region; the outputs are written if that succeeds, and as they were if not. */
Failure Execute(const Call& call, int64_t timeout_ms, Device* device, Session* session);

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_SESSION_H_
