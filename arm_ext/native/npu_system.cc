// SPDX-License-Identifier: Apache-2.0
#include "npu_system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace arm_ext {

int OpenDevice(const char* path) {
  int fd;
  do {
    fd = open(path, O_RDWR | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int Control(int fd, unsigned long request, void* argument) {
  int status;
  do {
    status = ioctl(fd, request, argument);
  } while (status < 0 && errno == EINTR);
  return status;
}

void* Map(int fd, size_t size, uint64_t offset) {
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : memory;
}

void Unmap(void* memory, size_t size) { munmap(memory, size); }

void CloseDevice(int fd) { close(fd); }

}  // namespace arm_ext
