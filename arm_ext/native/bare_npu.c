// SPDX-License-Identifier: Apache-2.0
// The driver's function for an Ethos-U beside an emulated Cortex-M, and a data cache's functions:
// the machine that emulates the core answers, by a functional model of the NPU.
//
// The pipe "npu-request" gets words: 1, address and bytes of a clean; 2, address and bytes of an
// invalidation; 3 of an invocation, then the bytes of the commands, the number of memories, and
// address and bytes of each; then the commands, and the content of each memory that has an address.
// The pipe "npu-answer" gives, of an invocation, a status, the number of a memory, and its content.
#include "bare.h"

enum { kClean = 1, kInvalidate = 2, kInvoke = 3 };

struct ethosu_driver {
  int request, answer;
};

static struct ethosu_driver driver;

struct ethosu_driver* npu_driver(void) {
  driver.request = open_file("npu-request", 1);
  driver.answer = open_file("npu-answer", 0);
  return driver.request < 0 || driver.answer < 0 ? NULL : &driver;
}

static void tell(uint32_t kind, const void* address, size_t bytes) {
  const uint32_t words[] = {kind, (uint32_t)(uintptr_t)address, (uint32_t)bytes};
  write_all(driver.request, words, sizeof words);
}

void npu_clean(void* address, size_t bytes) { tell(kClean, address, bytes); }

void npu_invalidate(void* address, size_t bytes) { tell(kInvalidate, address, bytes); }

int ethosu_invoke_v3(struct ethosu_driver* npu, const void* custom_data,
                     const int custom_data_bytes, uint64_t* const bases, const size_t* sizes,
                     const int count, void* user) {
  (void)user;
  const uint32_t head[] = {kInvoke, (uint32_t)custom_data_bytes, (uint32_t)count};
  int good = write_all(npu->request, head, sizeof head);
  for (int i = 0; i < count; ++i) {
    const uint32_t memory[] = {(uint32_t)bases[i], (uint32_t)sizes[i]};
    good &= write_all(npu->request, memory, sizeof memory);
  }
  good &= write_all(npu->request, custom_data, (size_t)custom_data_bytes);
  for (int i = 0; i < count; ++i) {
    if (bases[i] != 0) {
      good &= write_all(npu->request, (const void*)(uintptr_t)bases[i], sizes[i]);
    }
  }
  int32_t answer[2];
  good &= read_all(npu->answer, answer, sizeof answer);
  const uint32_t written = (uint32_t)answer[1];
  if (!good || written >= (uint32_t)count || bases[written] == 0 ||
      !read_all(npu->answer, (void*)(uintptr_t)bases[written], sizes[written])) {
    return -1;
  }
  return answer[0];
}
