// SPDX-License-Identifier: Apache-2.0
// An Ethos-U behind Linux's driver accel/ethosu. Nothing here locks; npu_runtime.cc does.
#ifndef ARM_EXT_NATIVE_NPU_DEVICE_H_
#define ARM_EXT_NATIVE_NPU_DEVICE_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "npu_abi.h"
#include "npu_failure.h"
#include "npu_payload.h"

namespace arm_ext {

/*! \brief Memory that the device and this process share; of handle 0 there is none. */
struct Buffer {
  uint32_t handle = 0;
  uint64_t size = 0;
  uint8_t* memory = nullptr;
};

/*! \brief A device, open or not, and the buffers that all regions of a model share. */
struct Device {
  int fd = -1;
  pid_t owner = 0;          // a child of fork must not use what its parent has open
  uint32_t generation = 0;  // handles of an earlier one are gone
  abi::NpuInfo info = {};
  char path[32] = "";
  Buffer shared[abi::kRegions];
};

/*! \brief Opens the device that a payload can run on; `device` is unchanged if there is none. */
Failure Open(const Payload& payload, Device* device);

/*! \brief Whether a payload is for this configuration and this much SRAM. */
Failure CheckMatch(const Payload& payload, const abi::NpuInfo& info, const char* path);

/*! \brief Frees all that is open; the driver frees its own with the last descriptor. */
void Close(Device* device);

/*! \brief Makes `buffer` hold `size` bytes at least; what it held is lost if it must grow. */
Failure Reserve(const Device& device, uint64_t size, Buffer* buffer);

/*! \brief Frees a buffer or, by its handle alone, a command stream. */
void Free(const Device& device, Buffer* buffer);

/*! \brief Gives the driver a payload's commands, behind the preamble, to check and keep. */
Failure LoadCommands(const Device& device, const Payload& payload, uint32_t* handle);

/*!
 * \brief Runs a job to its end.
 * \param written Handle of a buffer that the job writes.
 * \param submitted Set once the device may be at work on the buffers.
 */
Failure RunJob(const Device& device, const abi::Job& job, uint32_t written, int64_t timeout_ms,
               bool* submitted);

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_DEVICE_H_
