// SPDX-License-Identifier: Apache-2.0
// Asks a board what it is. Uploaded as a module of its own and run by the stock runtime: no TVM
// code on the board beyond that. arm_ext_probe() returns lines "name value".
#define _GNU_SOURCE
#include <dirent.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

// <asm/hwcap.h> of arm64: the kernel lets user space read the identification registers.
enum { kHwcapCpuid = 1 << 11 };

static int FindRuntime(struct dl_phdr_info* library, size_t size, void* path) {
  (void)size;
  if (strstr(library->dlpi_name, "/libtvm_runtime.so") == NULL) return 0;
  snprintf(path, PATH_MAX, "%s", library->dlpi_name);
  return 1;
}

// The version of an installed wheel. The runtime has no function that tells its own, and
// TVMFFIGetVersion of the wheel 0.1.14.post1 says 0.1.15; the wheels' records, two folders above
// the libraries, do tell.
static void WheelVersion(const char* wheel, char* version, size_t size) {
  static const char suffix[] = ".dist-info";
  char path[PATH_MAX] = "";
  snprintf(version, size, "unknown");
  dl_iterate_phdr(FindRuntime, path);
  for (int up = 0; up < 3; up++) {
    char* slash = strrchr(path, '/');
    if (slash == NULL) return;
    *slash = '\0';
  }
  DIR* folder = opendir(path);
  if (folder == NULL) return;
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
    size_t length = strlen(wheel);
    char* end = strstr(entry->d_name, suffix);
    if (end == NULL || strncmp(entry->d_name, wheel, length) != 0 || entry->d_name[length] != '-')
      continue;
    *end = '\0';
    snprintf(version, size, "%s", entry->d_name + length + 1);
  }
  closedir(folder);
}

// The "model name" of x86; empty on arm64, which has none.
static void CpuName(char* name, size_t size) {
  char line[512];
  name[0] = '\0';
  FILE* file = fopen("/proc/cpuinfo", "r");
  if (file == NULL) return;
  while (fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, "model name", strlen("model name")) != 0 || strstr(line, ": ") == NULL)
      continue;
    snprintf(name, size, "%s", strstr(line, ": ") + 2);
    name[strcspn(name, "\n")] = '\0';
    break;
  }
  fclose(file);
}

static unsigned long Midr(void) {
  unsigned long midr = 0;
#ifdef __aarch64__
  if (getauxval(AT_HWCAP) & kHwcapCpuid) __asm__("mrs %0, midr_el1" : "=r"(midr));
#endif
  return midr;
}

static void FirstLine(const char* path, char* line, size_t size) {
  line[0] = '\0';
  FILE* file = fopen(path, "r");
  if (file == NULL) return;
  if (fgets(line, (int)size, file) != NULL) line[strcspn(line, "\n")] = '\0';
  fclose(file);
}

static int HasLine(const char* path, const char* start) {
  char line[512];
  FILE* file = fopen(path, "r");
  int found = file == NULL;  // without the file nothing is known
  while (!found && fgets(line, sizeof(line), file) != NULL)
    found = strncmp(line, start, strlen(start)) == 0;
  if (file != NULL) fclose(file);
  return found;
}

// Whether QEMU's user mode runs this: our server says so, and of another one its files of the
// kernel's are those of the machine below. An emulated machine with a kernel of its own cannot be
// told from a real one.
static int IsEmulated(const char* machine) {
  TVMFFIByteArray key = {"arm_ext.board.emulated", strlen("arm_ext.board.emulated")};
  TVMFFIObjectHandle function = NULL;
  if (TVMFFIFunctionGetGlobal(&key, &function) == 0 && function != NULL) {
    TVMFFIObjectDecRef(function);
    return 1;
  }
  char arch[64], name[64];
  FirstLine("/proc/sys/kernel/arch", arch, sizeof(arch));  // from Linux 6.1 on
  FirstLine("/proc/self/comm", name, sizeof(name));
  return (arch[0] != '\0' && strcmp(arch, machine) != 0) || strncmp(name, "qemu-", 5) == 0 ||
         (strcmp(machine, "aarch64") == 0 && !HasLine("/proc/cpuinfo", "CPU implementer"));
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_arm_ext_probe(void* self, const TVMFFIAny* args, int32_t num_args,
                                               TVMFFIAny* result) {
  (void)self, (void)args, (void)num_args;
  struct utsname host;
  char tvm[64], ffi[64], cpu[256], text[1024];
  uname(&host);
  WheelVersion("apache_tvm", tvm, sizeof(tvm));
  WheelVersion("apache_tvm_ffi", ffi, sizeof(ffi));
  CpuName(cpu, sizeof(cpu));
  int size = snprintf(text, sizeof(text),
                      "machine %s\ncores %ld\nhwcap %lu\nhwcap2 %lu\nmidr %lu\ntvm %s\nffi "
                      "%s\nemulated %d\ncpu %s\n",
                      host.machine, sysconf(_SC_NPROCESSORS_ONLN), getauxval(AT_HWCAP),
                      getauxval(AT_HWCAP2), Midr(), tvm, ffi, IsEmulated(host.machine), cpu);
  TVMFFIByteArray bytes = {text, (size_t)size};
  return TVMFFIStringFromByteArray(&bytes, result);
}
