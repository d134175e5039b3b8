// SPDX-License-Identifier: Apache-2.0
#include "npu_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "npu_stream.h"
#include "npu_system.h"

namespace arm_ext {
namespace {

constexpr int kNodes = 64;  // of accelerators, of any driver

// Fields of CONFIG and ID. Which must be equal, and that an architecture may be newer in its minor
// number: ethosu_dev_verify_optimizer_config of Arm's ethos-u-core-driver.
constexpr uint32_t kExact = 0xF00000FF;  // product, version of the stream, MACs a cycle
constexpr uint32_t kCustomDma = 1u << 27;
uint32_t Major(uint32_t id) { return id >> 28; }
uint32_t Minor(uint32_t id) { return id >> 20 & 0xFF; }

unsigned long long Long(uint64_t value) { return value; }

uint64_t Address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

/*! \brief What an error number of the driver means, and what to do. */
Failure Error(const char* path, const char* doing, int error) {
  switch (error) {
    case ENOMEM:
    case ENOSPC:
      return Failed(Scope::kCall,
                    "%s: no memory for %s; the NPU wants it contiguous: free some, or enlarge "
                    "Linux's pool of it (kernel option cma=)",
                    path, doing);
    case EBUSY:
    case EAGAIN:
      return Failed(Scope::kCall, "%s: busy at %s; end what else uses the NPU, or try again", path,
                    doing);
    case EMFILE:
    case ENFILE:
      return Failed(Scope::kCall, "%s: too many open files at %s; raise the limit (ulimit -n)",
                    path, doing);
    case EACCES:
    case EPERM:
      return Failed(Scope::kDevice,
                    "%s: permission denied; add the user to the group render (usermod -aG render) "
                    "and log in again",
                    path);
    case EIO:
    case ENODEV:
    case ENXIO:
    case ECANCELED:
      return Failed(Scope::kDevice,
                    "%s: the NPU failed or is gone at %s (%s); see dmesg, and start the program "
                    "again when it is back",
                    path, doing, strerror(error));
    default:
      return Failed(Scope::kRegion, "%s: the driver refuses %s (%s); dmesg says why", path, doing,
                    strerror(error));
  }
}

/*! \brief Whether a node is of the driver for Ethos-U. */
bool IsEthosU(int fd) {
  char name[sizeof(abi::kDriver)] = "";
  abi::Version version = {};
  version.name = Address(name);
  version.name_size = sizeof(name) - 1;
  return Control(fd, abi::kVersion, &version) == 0 && version.name_size == sizeof(name) - 1 &&
         strcmp(name, abi::kDriver) == 0;
}

/*! \brief Opens a node and asks what it is; kAbsent if it is nothing of ours. */
Failure OpenNode(const char* path, int* fd, abi::NpuInfo* info) {
  *fd = OpenDevice(path);
  if (*fd < 0) {
    bool none = errno == ENOENT || errno == ENOTDIR;
    return none ? Failed(Scope::kAbsent, "%s", "") : Error(path, "opening", errno);
  }
  if (!IsEthosU(*fd)) return Failed(Scope::kAbsent, "%s", "");
  abi::DevQuery query = {0, sizeof(*info), Address(info)};
  return Control(*fd, abi::kDevQuery, &query) == 0 ? Failure() : Error(path, "a query", errno);
}

/*! \brief Waits for the job that `status_fd` follows; its errors show there alone. */
Failure Wait(const Device& device, uint32_t written, int status_fd, int64_t timeout_ms) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t deadline = (int64_t{now.tv_sec} * 1000 + timeout_ms) * 1000000 + now.tv_nsec;
  abi::BoWait wait = {written, 0, deadline};
  if (Control(device.fd, abi::kBoWait, &wait) != 0) {
    if (errno != ETIME && errno != ETIMEDOUT) return Error(device.path, "a job", errno);
    return Failed(
        Scope::kDevice,
        "%s: not done after %lld ms; see dmesg, or give a long model or a shared NPU more "
        "in ARM_EXT_NPU_TIMEOUT_MS",
        device.path, static_cast<long long>(timeout_ms));
  }
  // The driver resets an NPU that hangs, and a wait then ends as if the job were done.
  abi::SyncFileInfo done = {};
  if (Control(status_fd, abi::kSyncFileInfo, &done) != 0) {
    return Error(device.path, "a job's status", errno);
  }
  if (done.status == 1) return {};
  return Error(device.path, "a job", done.status < 0 ? -done.status : EIO);
}

}  // namespace

Failure CheckMatch(const Payload& payload, const abi::NpuInfo& info, const char* path) {
  bool same = ((payload.config ^ info.config) & kExact) == 0 &&
              !(payload.config & ~info.config & kCustomDma);
  if (!same || Major(payload.arch) != Major(info.id) || Minor(payload.arch) > Minor(info.id)) {
    return Failed(Scope::kRegion,
                  "%s has configuration %#x, architecture %u.%u; the model is compiled for %s "
                  "(%#x, %u.%u): compile it with --npu for this one",
                  path, info.config, Major(info.id), Minor(info.id), payload.accelerator,
                  payload.config, Major(payload.arch), Minor(payload.arch));
  }
  const Region& sram = payload.regions[abi::kSramRegion];
  if (sram.kind == Kind::kFast && sram.size > info.sram_size) {
    return Failed(Scope::kRegion,
                  "%s has %u bytes of SRAM, the model wants %llu: compile it with --sram-budget %u",
                  path, info.sram_size, Long(sram.size), info.sram_size);
  }
  return {};
}

Failure Open(const Payload& payload, Device* device) {
  Failure first =
      Failed(Scope::kAbsent, "no NPU: no /dev/accel/accel* is of Linux's driver %s", abi::kDriver);
  for (int node = 0; node < kNodes; ++node) {
    char path[sizeof(device->path)];
    snprintf(path, sizeof(path), "/dev/accel/accel%d", node);
    int fd;
    abi::NpuInfo info = {};
    Failure failure = OpenNode(path, &fd, &info);
    if (!failure) failure = CheckMatch(payload, info, path);
    if (!failure) {
      device->fd = fd;
      device->owner = getpid();
      device->info = info;
      memcpy(device->path, path, sizeof(path));
      return {};
    }
    if (fd >= 0) CloseDevice(fd);
    if (first.scope == Scope::kAbsent && failure.scope != Scope::kAbsent) first = failure;
  }
  return first;
}

void Close(Device* device) {
  if (device->fd < 0) return;
  for (Buffer& buffer : device->shared) {
    if (buffer.memory != nullptr) Unmap(buffer.memory, buffer.size);
    buffer = {};
  }
  CloseDevice(device->fd);
  device->fd = -1;
  ++device->generation;
}

Failure Reserve(const Device& device, uint64_t size, Buffer* buffer) {
  if (buffer->size >= size) return {};
  Free(device, buffer);
  char what[48];
  snprintf(what, sizeof(what), "%llu bytes", Long(size));
  abi::BoCreate create = {size, 0, 0};
  if (Control(device.fd, abi::kBoCreate, &create) != 0) return Error(device.path, what, errno);
  buffer->handle = create.handle;
  abi::BoMmapOffset place = {create.handle, 0, 0};
  void* memory = nullptr;
  if (Control(device.fd, abi::kBoMmapOffset, &place) == 0) {
    memory = Map(device.fd, size, place.offset);
  }
  if (memory == nullptr) {
    Failure failure = Error(device.path, what, errno);
    Free(device, buffer);
    return failure;
  }
  buffer->size = size;
  buffer->memory = static_cast<uint8_t*>(memory);
  return {};
}

void Free(const Device& device, Buffer* buffer) {
  if (buffer->memory != nullptr) Unmap(buffer->memory, buffer->size);
  abi::GemClose close = {buffer->handle, 0};
  if (buffer->handle != 0) Control(device.fd, abi::kGemClose, &close);
  *buffer = {};
}

Failure LoadCommands(const Device& device, const Payload& payload, uint32_t* handle) {
  uint32_t preamble[kPreambleWords];
  Preamble(payload.tensors[payload.inputs].region, preamble);
  uint32_t bytes = sizeof(preamble) + payload.command_bytes;
  uint8_t* whole = static_cast<uint8_t*>(malloc(bytes));
  if (whole == nullptr) return Error(device.path, "the command stream", ENOMEM);
  memcpy(whole, preamble, sizeof(preamble));
  memcpy(whole + sizeof(preamble), payload.commands, payload.command_bytes);
  abi::CommandsCreate create = {bytes, 0, Address(whole), 0, 0};
  Failure failure;
  if (Control(device.fd, abi::kCommandsCreate, &create) != 0) {
    failure = Error(device.path, "the command stream", errno);
  }
  free(whole);
  *handle = create.handle;
  return failure;
}

Failure RunJob(const Device& device, const abi::Job& job, uint32_t written, int64_t timeout_ms,
               bool* submitted) {
  abi::Submit submit = {Address(&job), 1, 0};
  if (Control(device.fd, abi::kSubmit, &submit) != 0) return Error(device.path, "a job", errno);
  *submitted = true;
  abi::PrimeHandle shared = {written, O_CLOEXEC, -1};
  if (Control(device.fd, abi::kPrimeHandleToFd, &shared) != 0) {
    return Error(device.path, "a job's buffer", errno);
  }
  abi::ExportSyncFile status = {abi::kSyncRead, -1};
  int exported = Control(shared.fd, abi::kExportSyncFile, &status);
  int error = errno;
  CloseDevice(shared.fd);
  if (exported != 0) return Error(device.path, "a job's status", error);
  Failure failure = Wait(device, written, status.fd, timeout_ms);
  CloseDevice(status.fd);
  return failure;
}

}  // namespace arm_ext
