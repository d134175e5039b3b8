/* SPDX-License-Identifier: Apache-2.0 */
/* Guard pages around the tensors of a process that has this library in LD_PRELOAD.

   TVM takes the memory of tensors from posix_memalign. Here each has pages of its own between two that cannot be
   touched; it ends where the second one begins, or begins where the first one ends. What is left of its pages holds a
   value that is looked at when it is freed, and so does the tensor itself at first. */

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *pointer);

enum { kPage = 4096, kMost = 65536, kTensorAlignment = 64 };
static const size_t kReserved = (size_t)1 << 36;

struct Tensor {
  unsigned char *pages, *begin;
  size_t size, length;
};

static unsigned char *arena, *next;
static struct Tensor tensors[kMost];
static int count, enabled, at_end, overwritten;
static unsigned char poison;

/* Begins to place tensors: at the end of their pages or at the beginning, filled with a value. */
int guard_begin(int end, int value) {
  if (!arena) {
    arena = mmap(NULL, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) return -1;
    next = arena;
  }
  if (!count) next = arena;
  enabled = 1, at_end = end, poison = (unsigned char)value, overwritten = 0;
  return 0;
}

static void look_at(const struct Tensor *tensor) {
  const unsigned char *byte = tensor->pages, *after = tensor->begin + tensor->size;
  for (; byte < tensor->begin; ++byte) overwritten += *byte != poison;
  for (byte = after; byte < tensor->pages + tensor->length; ++byte) overwritten += *byte != poison;
}

/* Ends it; returns how many bytes beside tensors were overwritten. Those that are still held stay where they are. */
int guard_end(void) {
  for (int i = 0; i < count; ++i) look_at(&tensors[i]);
  enabled = 0;
  return overwritten;
}

int guard_tensors(void) { return count; }

int posix_memalign(void **result, size_t alignment, size_t size) {
  if (!enabled || alignment != kTensorAlignment || count == kMost) {
    *result = __libc_memalign(alignment, size);
    return *result ? 0 : 12;
  }
  size_t length = (size + kPage) / kPage * kPage; /* one page at least, for empty tensors too */
  if (size && size % kPage == 0) length = size;
  if (next + length + 2 * kPage > arena + kReserved) return 12;
  struct Tensor *tensor = &tensors[count++];
  tensor->pages = next + kPage, tensor->length = length, tensor->size = size;
  if (mprotect(tensor->pages, length, PROT_READ | PROT_WRITE)) return 12;
  memset(tensor->pages, poison, length);
  size_t taken = (size + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  tensor->begin = at_end ? tensor->pages + length - taken : tensor->pages;
  next += length + kPage;
  *result = tensor->begin;
  return 0;
}

void free(void *pointer) {
  unsigned char *byte = pointer;
  if (!arena || byte < arena || byte >= arena + kReserved) {
    __libc_free(pointer);
    return;
  }
  for (int i = count - 1; i >= 0; --i) {
    if (tensors[i].begin != byte) continue;
    look_at(&tensors[i]);
    mprotect(tensors[i].pages, tensors[i].length, PROT_NONE);
    madvise(tensors[i].pages, tensors[i].length, MADV_DONTNEED);
    tensors[i] = tensors[--count];
    return;
  }
  __builtin_trap(); /* freed twice */
}
