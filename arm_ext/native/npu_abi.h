// SPDX-License-Identifier: Apache-2.0
// What of Linux's interfaces to an Ethos-U is used here, in declarations of our own, since the
// headers of a build machine are older than the driver. Sources: include/uapi/drm/ethosu_accel.h
// (Linux 6.19), include/uapi/drm/drm.h, include/uapi/linux/dma-buf.h,
// include/uapi/linux/sync_file.h.
#ifndef ARM_EXT_NATIVE_NPU_ABI_H_
#define ARM_EXT_NATIVE_NPU_ABI_H_

#include <stdint.h>
#include <sys/ioctl.h>

namespace arm_ext {
namespace abi {

constexpr int kRegions = 8;
constexpr int kSramRegion = 2;  // never a buffer object where a job states SRAM
constexpr char kDriver[] = "ethosu";

/*! \brief drm_version: which driver a node belongs to. */
struct Version {
  int32_t major, minor, patch;
  uint64_t name_size;
  uint64_t name;
  uint64_t date_size;
  uint64_t date;
  uint64_t description_size;
  uint64_t description;
};

/*! \brief drm_ethosu_npu_info as far as its first version goes: registers ID and CONFIG, bytes of
 * SRAM. */
struct NpuInfo {
  uint32_t id, config, sram_size;
};

/*! \brief drm_ethosu_dev_query; type 0 asks for NpuInfo. */
struct DevQuery {
  uint32_t type, size;
  uint64_t pointer;
};

struct BoCreate {
  uint64_t size;
  uint32_t flags, handle;
};

/*! \brief drm_ethosu_bo_wait; the time is of CLOCK_MONOTONIC. */
struct BoWait {
  uint32_t handle, pad;
  int64_t deadline_ns;
};

struct BoMmapOffset {
  uint32_t handle, pad;
  uint64_t offset;
};

struct CommandsCreate {
  uint32_t size, flags;
  uint64_t data;
  uint32_t handle, pad;
};

/*! \brief drm_ethosu_job; a handle of 0 where the stream does not use the region, else the driver
 * refuses. */
struct Job {
  uint32_t commands, sram_size;
  uint32_t regions[kRegions];
};

struct Submit {
  uint64_t jobs;
  uint32_t job_count, pad;
};

/*! \brief drm_gem_close. */
struct GemClose {
  uint32_t handle, pad;
};

/*! \brief drm_prime_handle. */
struct PrimeHandle {
  uint32_t handle, flags;
  int32_t fd;
};

/*! \brief dma_buf_export_sync_file: a file that follows the jobs which write to a buffer now. */
struct ExportSyncFile {
  uint32_t flags;
  int32_t fd;
};
constexpr uint32_t kSyncRead = 1;

/*! \brief sync_file_info; status is 1 once all jobs are done, negative if one of them failed. */
struct SyncFileInfo {
  char name[32];
  int32_t status;
  uint32_t flags, fence_count, pad;
  uint64_t fences;
};

static_assert(sizeof(Version) == 64 && sizeof(DevQuery) == 16 && sizeof(BoCreate) == 16 &&
                  sizeof(BoWait) == 16 && sizeof(BoMmapOffset) == 16 &&
                  sizeof(CommandsCreate) == 24 && sizeof(Job) == 40 && sizeof(Submit) == 16 &&
                  sizeof(PrimeHandle) == 12 && sizeof(SyncFileInfo) == 56,
              "as the kernel lays them out");

// Numbers of the driver's own requests begin at 0x40 (DRM_COMMAND_BASE).
constexpr unsigned long kVersion = _IOWR('d', 0x00, Version);
constexpr unsigned long kGemClose = _IOW('d', 0x09, GemClose);
constexpr unsigned long kPrimeHandleToFd = _IOWR('d', 0x2d, PrimeHandle);
constexpr unsigned long kDevQuery = _IOWR('d', 0x40, DevQuery);
constexpr unsigned long kBoCreate = _IOWR('d', 0x41, BoCreate);
constexpr unsigned long kBoWait = _IOWR('d', 0x42, BoWait);
constexpr unsigned long kBoMmapOffset = _IOWR('d', 0x43, BoMmapOffset);
constexpr unsigned long kCommandsCreate = _IOWR('d', 0x44, CommandsCreate);
constexpr unsigned long kSubmit = _IOWR('d', 0x45, Submit);
constexpr unsigned long kExportSyncFile = _IOWR('b', 2, ExportSyncFile);
constexpr unsigned long kSyncFileInfo = _IOWR('>', 4, SyncFileInfo);

}  // namespace abi
}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_ABI_H_
