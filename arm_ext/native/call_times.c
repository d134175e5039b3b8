// SPDX-License-Identifier: Apache-2.0
// Times each kernel call of a model.so on a board, without another model.so: uploaded as a module
// of its own and run by the stock runtime.
//
// A model.so calls its kernels by its procedure linkage table. arm_ext_calls_watch replaces those
// entries of the table that lead to kernels by functions that note the clock and the hardware
// counters before and after; arm_ext_calls_read gives what was noted. Calls of one thread are
// noted, which is the one that runs `main`.
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

enum { kMaxKernels = 2048, kMaxCounters = 5, kCalibrations = 2000, kNumber = 24 };

typedef int (*Kernel)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

typedef struct Call {
  int32_t kernel;  // its place in the linkage table
  uint64_t begin_ns, end_ns;
  uint64_t counts[kMaxCounters];  // between the two
} Call;

static Kernel kernels[kMaxKernels];
static Kernel* slots[kMaxKernels];
static const char* names[kMaxKernels];
static int num_kernels;
static Call* calls;
static size_t num_calls, max_calls;

static const struct {
  const char* name;
  uint32_t type;
  uint64_t config;
} kCounters[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
#ifdef __aarch64__
    // Arm ARM DDI 0487, D13 "Common event numbers".
    {"l1d_refills", PERF_TYPE_RAW, 0x03},
    {"l2d_refills", PERF_TYPE_RAW, 0x17},
    {"backend_stalls", PERF_TYPE_RAW, 0x24},
#endif
};
enum { kNumCounters = sizeof(kCounters) / sizeof(kCounters[0]) };
static int leader = -1, opened[kMaxCounters], counting[kMaxCounters], num_counting;

static uint64_t Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void ReadCounters(uint64_t* values) {
  uint64_t group[1 + kMaxCounters] = {0};
  if (leader < 0 || read(leader, group, sizeof(group)) < 0) return;
  memcpy(values, group + 1, (size_t)num_counting * sizeof(uint64_t));
}

static int Timed(int index, void* self, const TVMFFIAny* args, int32_t num_args,
                 TVMFFIAny* result) {
  if (num_calls == max_calls) return kernels[index](self, args, num_args, result);
  Call* call = &calls[num_calls++];
  uint64_t before[kMaxCounters] = {0}, after[kMaxCounters] = {0};
  call->kernel = index;
  ReadCounters(before);
  call->begin_ns = Now();
  int status = kernels[index](self, args, num_args, result);
  call->end_ns = Now();
  ReadCounters(after);
  for (int i = 0; i < num_counting; i++) call->counts[i] = after[i] - before[i];
  return status;
}

// One function an entry of the table, which knows its number: 0x000 to 0x7ff.
#define ONE(n)                                                                              \
  static int Timed_##n(void* self, const TVMFFIAny* args, int32_t num, TVMFFIAny* result) { \
    return Timed(0x##n, self, args, num, result);                                           \
  }
#define NAME(n) Timed_##n,
#define EACH_16(x, n)                                                                             \
  x(n##0) x(n##1) x(n##2) x(n##3) x(n##4) x(n##5) x(n##6) x(n##7) x(n##8) x(n##9) x(n##a) x(n##b) \
      x(n##c) x(n##d) x(n##e) x(n##f)
#define EACH_256(x, n) \
  EACH_16(x, n##0)     \
  EACH_16(x, n##1)     \
  EACH_16(x, n##2)     \
  EACH_16(x, n##3)     \
  EACH_16(x, n##4)     \
  EACH_16(x, n##5)     \
  EACH_16(x, n##6)     \
  EACH_16(x, n##7)     \
  EACH_16(x, n##8)     \
  EACH_16(x, n##9)     \
  EACH_16(x, n##a)     \
  EACH_16(x, n##b) EACH_16(x, n##c) EACH_16(x, n##d) EACH_16(x, n##e) EACH_16(x, n##f)
#define EACH(x)  \
  EACH_256(x, 0) \
  EACH_256(x, 1) \
  EACH_256(x, 2) EACH_256(x, 3) EACH_256(x, 4) EACH_256(x, 5) EACH_256(x, 6) EACH_256(x, 7)
EACH(ONE)
static const Kernel kTimed[kMaxKernels] = {EACH(NAME)};

static int Fail(const char* message) {
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", message);
  return -1;
}

static int Empty(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  (void)self, (void)args, (void)num_args, (void)result;
  return 0;
}

static int CompareNumbers(const void* a, const void* b) {
  uint64_t left = *(const uint64_t*)a, right = *(const uint64_t*)b;
  return (left > right) - (left < right);
}

// Nanoseconds that a call of nothing seems to take: the median of many.
static uint64_t Overhead(void) {
  static uint64_t taken[kCalibrations];
  Kernel first = kernels[0];
  kernels[0] = Empty;
  for (int i = 0; i < kCalibrations; i++) {
    num_calls = 0;
    kTimed[0](NULL, NULL, 0, NULL);
    taken[i] = calls[0].end_ns - calls[0].begin_ns;
  }
  kernels[0] = first;
  num_calls = 0;
  qsort(taken, kCalibrations, sizeof(taken[0]), CompareNumbers);
  return taken[kCalibrations / 2];
}

// The counters that the machine has and lets us read, in one group; errno's value of the first
// otherwise.
static int OpenCounters(void) {
  int reason = 0;
  for (int i = 0; i < kNumCounters; i++) {
    struct perf_event_attr attr = {.size = sizeof(attr),
                                   .type = kCounters[i].type,
                                   .config = kCounters[i].config,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1,
                                   .read_format = PERF_FORMAT_GROUP};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, 0);
    if (fd < 0) {
      if (leader < 0) reason = errno;
      continue;
    }
    if (leader < 0) leader = fd;
    opened[num_counting] = fd;
    counting[num_counting++] = i;
  }
  return leader < 0 ? reason : 0;
}

static void CloseCounters(void) {
  for (int i = 0; i < num_counting; i++) close(opened[i]);
  leader = -1;
  num_counting = 0;
}

// In a library of glibc's a dynamic entry is an address; elsewhere it is relative.
static const void* At(const struct dl_phdr_info* library, uintptr_t value) {
  return (const void*)(value < library->dlpi_addr ? value + library->dlpi_addr : value);
}

static int IsWatched(const char* symbol, const char* wanted) {
  static const char prefix[] = "__tvm_ffi_";
  if (strncmp(symbol, prefix, sizeof(prefix) - 1) != 0) return 0;
  const char* name = symbol + sizeof(prefix) - 1;
  size_t length = strlen(name);
  for (const char* at = wanted; (at = strstr(at, name)) != NULL; at += length) {
    if ((at == wanted || at[-1] == '\n') && at[length] == '\n') return 1;
  }
  return 0;
}

static int Unprotect(void* slot) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)slot & ~(page - 1);
  return mprotect((void*)begin, page, PROT_READ | PROT_WRITE);
}

// Puts a function of ours into each entry of the linkage table that leads to a wanted kernel.
static int WatchLibrary(struct dl_phdr_info* library, size_t size, void* wanted) {
  (void)size;
  const char* file = strrchr(library->dlpi_name, '/');
  if (file == NULL || strcmp(file, "/model.so") != 0) return 0;
  const ElfW(Dyn)* entry = NULL;
  for (int i = 0; i < library->dlpi_phnum; i++) {
    if (library->dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = (const void*)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
  }
  const ElfW(Rela)* relocations = NULL;
  const ElfW(Sym)* symbols = NULL;
  const char* strings = NULL;
  size_t bytes = 0;
  for (; entry != NULL && entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_JMPREL) relocations = At(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols = At(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) strings = At(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_PLTRELSZ) bytes = entry->d_un.d_val;
  }
  if (relocations == NULL || symbols == NULL || strings == NULL) return 0;
  for (size_t i = 0; i < bytes / sizeof(*relocations); i++) {
    const ElfW(Sym)* symbol = symbols + ELF64_R_SYM(relocations[i].r_info);
    Kernel* slot = (Kernel*)(library->dlpi_addr + relocations[i].r_offset);
    if (symbol->st_value == 0 || !IsWatched(strings + symbol->st_name, wanted)) continue;
    if (num_kernels == kMaxKernels || Unprotect(slot) != 0) return -1;
    // Not what the entry holds: the first call may still have to find the function.
    kernels[num_kernels] = (Kernel)(library->dlpi_addr + symbol->st_value);
    names[num_kernels] = strings + symbol->st_name + strlen("__tvm_ffi_");
    slots[num_kernels] = slot;
    *slot = kTimed[num_kernels++];
  }
  return 0;
}

static void Unwatch(void) {
  for (int i = 0; i < num_kernels; i++) *slots[i] = kernels[i];
  num_kernels = 0;
  CloseCounters();
  free(calls);
  calls = NULL;
  num_calls = max_calls = 0;
}

/*!
 * arm_ext_calls_watch(names, capacity, counters) → "overhead NS" and "counters NAME NAME ..." or
 * "counters errno N". Names are lines; as many calls as the capacity are noted, with counters where
 * that is not 0.
 */
TVM_FFI_DLL_EXPORT int __tvm_ffi_arm_ext_calls_watch(void* self, const TVMFFIAny* args,
                                                     int32_t num_args, TVMFFIAny* result) {
  (void)self;
  if (num_args != 3 || args[0].type_index != kTVMFFIRawStr)
    return Fail("names, capacity, counters");
  Unwatch();
  max_calls = (size_t)args[1].v_int64;
  calls = calloc(max_calls, sizeof(Call));
  if (calls == NULL) return Fail("no memory for so many calls");
  if (dl_iterate_phdr(WatchLibrary, (void*)(uintptr_t)args[0].v_c_str) != 0) {
    Unwatch();
    return Fail("the calls of this model.so cannot be watched");
  }
  char text[256];
  int reason = args[2].v_int64 != 0 ? OpenCounters() : 0;
  int size =
      snprintf(text, sizeof(text), "overhead %llu\ncounters", (unsigned long long)Overhead());
  if (reason != 0) size += snprintf(text + size, sizeof(text) - (size_t)size, " errno %d", reason);
  for (int i = 0; i < num_counting; i++)
    size += snprintf(text + size, sizeof(text) - (size_t)size, " %s", kCounters[counting[i]].name);
  TVMFFIByteArray bytes = {text, (size_t)size};
  return TVMFFIStringFromByteArray(&bytes, result);
}

/*!
 * arm_ext_calls_read() → a line "kernel begin_ns end_ns count ..." for each call since the last
 * arm_ext_calls_watch, and ends the watching.
 */
TVM_FFI_DLL_EXPORT int __tvm_ffi_arm_ext_calls_read(void* self, const TVMFFIAny* args,
                                                    int32_t num_args, TVMFFIAny* result) {
  (void)self, (void)args, (void)num_args;
  size_t size = 1;
  for (size_t i = 0; i < num_calls; i++)
    size += strlen(names[calls[i].kernel]) + (2 + kMaxCounters) * kNumber;
  char* text = malloc(size);
  if (text == NULL) return Fail("no memory for so many calls");
  char* end = text;
  for (size_t i = 0; i < num_calls; i++) {
    const Call* call = &calls[i];
    end += sprintf(end, "%s %llu %llu", names[call->kernel], (unsigned long long)call->begin_ns,
                   (unsigned long long)call->end_ns);
    for (int j = 0; j < num_counting; j++)
      end += sprintf(end, " %llu", (unsigned long long)call->counts[j]);
    end += sprintf(end, "\n");
  }
  TVMFFIByteArray bytes = {text, (size_t)(end - text)};
  int status = TVMFFIStringFromByteArray(&bytes, result);
  free(text);
  Unwatch();
  return status;
}
