// SPDX-License-Identifier: Apache-2.0
// A QEMU TCG plugin for machines with one Cortex-M: counts how often each translated block runs
// between two calls of a function.
//
// mark=ADDRESS is the function's address, out=FILE the file to write. An even number of calls
// passes; each pair of them is a section, and the file gets, when a section ends, a line
// "vaddr instructions count" for each block that ran in it, and "#section" behind them.
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As in count_plugin.c: the declarations of plugin API version 1 that are used here.
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_info_t;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int vcpu, void* data);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb* tb);
typedef void (*qemu_plugin_udata_cb_t)(qemu_plugin_id_t id, void* data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* tb, enum qemu_plugin_op op,
                                              void* ptr, uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* tb, qemu_plugin_vcpu_udata_cb_t cb,
                                          enum qemu_plugin_cb_flags flags, void* data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t cb, void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* tb);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

typedef struct Block {
  struct Block* next;
  uint64_t vaddr;
  uint64_t size;  // instructions
  uint64_t count;
} Block;

enum { kBuckets = 4096 };
static Block* blocks[kBuckets];
static uint64_t mark;
static FILE* file;
static bool inside;

static void on_mark(unsigned int vcpu, void* data) {
  (void)vcpu, (void)data;
  for (size_t i = 0; i < kBuckets; ++i) {
    for (Block* block = blocks[i]; block; block = block->next) {
      if (inside && block->count) {
        fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->vaddr, block->size,
                block->count);
      }
      block->count = 0;
    }
  }
  if (inside) {
    fputs("#section\n", file);
  }
  inside = !inside;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  const uint64_t vaddr = qemu_plugin_tb_vaddr(tb), size = qemu_plugin_tb_n_insns(tb);
  if (vaddr == mark) {
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
    return;
  }
  Block** bucket = &blocks[vaddr / 2 % kBuckets];
  Block* block = *bucket;
  while (block && (block->vaddr != vaddr || block->size != size)) {
    block = block->next;
  }
  if (!block) {
    block = calloc(1, sizeof *block);
    if (!block) {
      abort();
    }
    *block = (Block){*bucket, vaddr, size, 0};
    *bucket = block;
  }
  qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &block->count, 1);
}

static void at_end(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  if (file) {
    fclose(file);
  }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info, int argc,
                               char** argv) {
  (void)info;
  for (int i = 0; i < argc; ++i) {
    if (strncmp(argv[i], "out=", 4) == 0) {
      file = fopen(argv[i] + 4, "w");
    } else if (strncmp(argv[i], "mark=", 5) == 0) {
      mark = strtoull(argv[i] + 5, NULL, 0) & ~UINT64_C(1);
    }
  }
  if (!file || !mark) {
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, at_end, NULL);
  return 0;
}
