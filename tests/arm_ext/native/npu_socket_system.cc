// SPDX-License-Identifier: Apache-2.0
// The NPU runtime's way to a device, for tests: npu_device.py behind a socket in the folder that
// ARM_EXT_NPU_TEST_DEVICE names. A descriptor is a connection; buffers are files of the folder.
//
// A request is u32 number (an ioctl's; kOpen: a path follows; kAttach: a token), u32 bytes, and the
// bytes: an ioctl's argument, then what it points to. The answer is i32 errno, u32 bytes, and the
// same bytes changed.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "npu_abi.h"
#include "npu_system.h"

namespace arm_ext {
namespace {

constexpr uint32_t kOpen = 0, kAttach = 1;

struct Header {
  uint32_t what, size;
};

/*! \brief What an ioctl's argument points to. */
struct Pointed {
  void* memory;
  size_t size;
  bool written;
};

bool Transfer(int fd, void* data, size_t size, bool out) {
  char* at = static_cast<char*>(data);
  while (size != 0) {
    ssize_t done = out ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

/*! \brief One request and its answer; a server that is gone is a device that is gone. */
int Ask(int fd, uint32_t what, Pointed argument, Pointed pointed) {
  Header header = {what, static_cast<uint32_t>(argument.size + pointed.size)};
  if (!Transfer(fd, &header, sizeof(header), true) ||
      !Transfer(fd, argument.memory, argument.size, true) ||
      !Transfer(fd, pointed.memory, pointed.size, true) ||
      !Transfer(fd, &header, sizeof(header), false)) {
    errno = ENODEV;
    return -1;
  }
  if ((argument.written && !Transfer(fd, argument.memory, argument.size, false)) ||
      (pointed.written && !Transfer(fd, pointed.memory, pointed.size, false))) {
    errno = ENODEV;
    return -1;
  }
  errno = static_cast<int>(header.what);
  return header.what == 0 ? 0 : -1;
}

int Connect(uint32_t what, const void* data, size_t size) {
  const char* folder = getenv("ARM_EXT_NPU_TEST_DEVICE");
  if (folder == nullptr) {
    errno = ENOENT;
    return -1;
  }
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  char copy[256];
  memcpy(copy, data, size);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      Ask(fd, what, {copy, size, false}, {}) != 0) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

Pointed PointedBy(unsigned long request, void* argument) {
  auto memory = [](uint64_t address) { return reinterpret_cast<void*>(address); };
  switch (request) {
    case abi::kVersion: {
      auto* version = static_cast<abi::Version*>(argument);
      return {memory(version->name), version->name_size, true};
    }
    case abi::kDevQuery: {
      auto* query = static_cast<abi::DevQuery*>(argument);
      return {memory(query->pointer), query->size, true};
    }
    case abi::kCommandsCreate: {
      auto* create = static_cast<abi::CommandsCreate*>(argument);
      return {memory(create->data), create->size, false};
    }
    case abi::kSubmit: {
      auto* submit = static_cast<abi::Submit*>(argument);
      return {memory(submit->jobs), submit->job_count * sizeof(abi::Job), false};
    }
    default:
      return {};
  }
}

}  // namespace

int OpenDevice(const char* path) { return Connect(kOpen, path, strlen(path)); }

int Control(int fd, unsigned long request, void* argument) {
  Pointed whole = {argument, _IOC_SIZE(request), true};
  if (Ask(fd, static_cast<uint32_t>(request), whole, PointedBy(request, argument)) != 0) return -1;
  // Where the kernel would give a new descriptor, the server gives a token for one.
  int32_t* made = request == abi::kPrimeHandleToFd ? &static_cast<abi::PrimeHandle*>(argument)->fd
                  : request == abi::kExportSyncFile
                      ? &static_cast<abi::ExportSyncFile*>(argument)->fd
                      : nullptr;
  if (made == nullptr) return 0;
  int32_t token = *made;
  *made = Connect(kAttach, &token, sizeof(token));
  return *made < 0 ? -1 : 0;
}

void* Map(int, size_t size, uint64_t offset) {
  char path[256];
  snprintf(path, sizeof(path), "%s/buffer-%llu", getenv("ARM_EXT_NPU_TEST_DEVICE"),
           static_cast<unsigned long long>(offset));
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : memory;
}

void Unmap(void* memory, size_t size) { munmap(memory, size); }

void CloseDevice(int fd) { close(fd); }

}  // namespace arm_ext
