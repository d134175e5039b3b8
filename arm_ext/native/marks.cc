// SPDX-License-Identifier: Apache-2.0
#include "marks.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffi.h"

// The placement form, which otherwise comes with the C++ library.
inline void* operator new(size_t, void* space) noexcept { return space; }

namespace arm_ext {
namespace {

// close() of descriptors that cannot exist: a system call the plugin sees and the kernel refuses.
// count_plugin.c has the same numbers.
constexpr long kBeginMark = 0x5A5A01;
constexpr long kEndMark = 0x5A5A02;
constexpr long kRegionMark = 0x5A5A03;

/*! \brief The instructions between the last two marks; 0 if the plugin wrote none. */
int64_t ReadTotal(const char* dump) {
  // What the model may have put in its place is not waited for.
  int fd = open(dump, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  FILE* file = fd < 0 ? nullptr : fdopen(fd, "r");
  if (file == nullptr) return 0;
  // "#total N" is the last line; 64 bytes hold it and the end of the line before.
  char tail[65] = {};
  if (fseek(file, 0, SEEK_END) == 0 && ftell(file) > 64)
    fseek(file, -64, SEEK_END);
  else
    rewind(file);
  size_t size = fread(tail, 1, sizeof(tail) - 1, file);
  fclose(file);
  tail[size] = '\0';
  const char* total = strstr(tail, "#total ");
  return total == nullptr ? 0 : strtoll(total + strlen("#total "), nullptr, 10);
}

/*!
 * \brief Stands in for tvm::runtime::TimerNode, member by member: a vtable, then the object's
 * header.
 *
 * The wheel's timer.h cannot be included: it needs a header that the wheel leaves out. TimerNode's
 * vtable goes on with its destructors, which nobody calls: an object is freed by its own deleter.
 */
class CountingTimer {
 public:
  virtual void Start() { syscall(SYS_close, kBeginMark); }
  virtual void Stop() { syscall(SYS_close, kEndMark); }
  virtual int64_t SyncAndGetElapsedNanos() { return ReadTotal(dump_); }

  CountingTimer(int32_t type_index, const char* dump) : dump_(dump) {
    header_.type_index = type_index;
    header_.combined_ref_count =
        (uint64_t{1} << 32) | 1;  // one strong; all strong ones hold one weak
    header_.deleter = Delete;
  }
  TVMFFIObject* header() { return &header_; }

 private:
  static void Delete(void* header, int flags) {
    constexpr size_t kHeaderOffset = sizeof(void*);  // behind the pointer to the vtable
    if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak)
      free(static_cast<char*>(header) - kHeaderOffset);
  }

  TVMFFIObject header_ = {};
  const char* dump_;
};

int NewCountingTimer(void* dump, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  TVMFFIByteArray key = Bytes("runtime.TimerNode");
  int32_t type_index = 0;
  if (TVMFFITypeKeyToIndex(&key, &type_index) != 0) return -1;
  void* space = malloc(sizeof(CountingTimer));
  CountingTimer* timer = new (space) CountingTimer(type_index, static_cast<const char*>(dump));
  result->type_index = type_index;
  result->v_obj = timer->header();
  return 0;
}

int Maps(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  // A session maps some 60 files: 10 KB.
  static char text[256 * 1024];
  FILE* file = fopen("/proc/self/maps", "r");
  if (file == nullptr) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "cannot read /proc/self/maps");
    return -1;
  }
  TVMFFIByteArray bytes = {text, fread(text, 1, sizeof(text), file)};
  fclose(file);
  return TVMFFIStringFromByteArray(&bytes, result);
}

int WatchRegion(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  if (num_args != 2 || args[0].type_index != kTVMFFIInt || args[1].type_index != kTVMFFIInt) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "a region is two addresses");
    return -1;
  }
  syscall(SYS_close, kRegionMark, args[0].v_int64, args[1].v_int64);
  *result = {};
  return 0;
}

int Nothing(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return 0; }

}  // namespace

bool RegisterCountingTimer(const char* dump) {
  return SetGlobal("runtime.timer.cpu", NewCountingTimer, dump) &&
         SetGlobal("arm_ext.board.watch_region", WatchRegion);
}

bool RegisterEmulated() { return SetGlobal("arm_ext.board.emulated", Nothing); }

bool RegisterMaps() { return SetGlobal("arm_ext.board.maps", Maps); }

}  // namespace arm_ext
