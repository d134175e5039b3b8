// SPDX-License-Identifier: Apache-2.0
// All that the NPU runtime asks of the operating system about a device: tests put another device
// behind these five.
#ifndef ARM_EXT_NATIVE_NPU_SYSTEM_H_
#define ARM_EXT_NATIVE_NPU_SYSTEM_H_

#include <stddef.h>
#include <stdint.h>

namespace arm_ext {

/*! \brief Each returns -1 (Map: null) with errno set if it fails; none fails with EINTR. */
int OpenDevice(const char* path);
int Control(int fd, unsigned long request, void* argument);
void* Map(int fd, size_t size, uint64_t offset);
void Unmap(void* memory, size_t size);
void CloseDevice(int fd);

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_SYSTEM_H_
