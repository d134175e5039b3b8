// SPDX-License-Identifier: Apache-2.0
// A QEMU TCG plugin that counts how often each translated block of a guest runs between two marks.
//
// The marks are the guest system calls close(0x5A5A01), which sets all counts to zero, and
// close(0x5A5A02), which writes the file given as out=FILE: a line "vaddr count word word ..." for
// each block that ran (hexadecimal address, decimal count, the A64 instructions in hexadecimal),
// and at the end "#total N", the instructions run. Nothing is watched before the first mark, so
// that loading a model is as fast as without the plugin.
//
// These counts are not atomic: the guest must run one thread between the marks. With by_thread=on
// each thread has its own, by a call instead of an addition in line, which is some times slower;
// the blocks of a thread then stand behind a line "#thread INDEX". Threads keep step: none gets
// more than kWindow instructions ahead of the slowest that runs, as if each had a core of its own
// that takes one instruction at a time. A line "#elapsed N" before the last one is the time from
// mark to mark on such a machine: the instructions of the thread that made the marks, those in
// which it waited for others among them. A thread that sleeps until another wakes it goes on at
// that one's time: the kernel's work and the delay of a wake are not counted.
//
// With l1=BYTES and l2=BYTES all data that the guest reads or writes goes through two caches of
// that size, whose state the marks do not touch, and a line "#misses L1 L2" before the last one
// tells how many lines each had to fetch between the marks. What runs between the first two marks
// only fills the caches, and no file is written for it. It takes some times longer, and one thread.
//
// With calls=on what runs between the marks is split into sections, in order. close(0x5A5A03,
// BEGIN, END) names a region of the guest's code: a section begins when a block in a region runs,
// unless the section is that region's own and the block is not its first. So a region of one
// address, a function's entry, makes a section of each call, and the region of the caller ends it.
// The file then has a line "#section BEGIN BYTES L1 L2 index:count index:count ..." for each: its
// region (0 for what ran before any), the bytes that it read and wrote, the lines that the caches
// fetched (these three are 0 without caches), and how often it ran each block, by its number among
// the file's blocks. Each line is written as soon as its section has ended, behind those of the
// blocks that ran first in it, so that the file holds what had ended if the guest is killed. The
// count of a block's own line is 0 in such a file: those of the sections sum up to it.
//
// No distribution ships qemu-plugin.h; these are the declarations of plugin API version 1 (QEMU 6.0
// to 8.2, docs/devel/tcg-plugins.rst) that are used here.
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };
typedef uint32_t qemu_plugin_meminfo_t;
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int vcpu, qemu_plugin_meminfo_t info,
                                          uint64_t vaddr, void* data);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int vcpu, void* data);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb* tb);
typedef void (*qemu_plugin_simple_cb_t)(qemu_plugin_id_t id);
typedef void (*qemu_plugin_vcpu_syscall_cb_t)(qemu_plugin_id_t id, unsigned int vcpu,
                                              int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                                              uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                                              uint64_t a8);
void qemu_plugin_reset(qemu_plugin_id_t id, qemu_plugin_simple_cb_t cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_syscall_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* tb, enum qemu_plugin_op op,
                                              void* ptr, uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* tb, qemu_plugin_vcpu_udata_cb_t cb,
                                          enum qemu_plugin_cb_flags flags, void* data);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn* insn, qemu_plugin_vcpu_mem_cb_t cb,
                                      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
                                      void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* tb);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* tb, size_t index);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn* insn);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

enum { kSysClose = 57, kBeginMark = 0x5A5A01, kEndMark = 0x5A5A02, kRegionMark = 0x5A5A03 };
enum { kMaxThreads = 64 };

typedef struct Region {
  uint64_t begin, end;  // guest addresses
} Region;

typedef struct Block {
  struct Block* next;
  uint64_t vaddr;
  uint64_t* counts;  // of each thread, or of all together
  size_t region;     // index plus one; 0 is none
  size_t section;    // in which it ran last
  size_t run;        // there, in `runs`
  size_t number;     // among those in the file, from 1; 0 before it is written
  size_t size;       // instructions
  uint32_t words[];
} Block;

static Block* blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static const char* out;
static unsigned int counters = 1;  // of a block
static bool watching;

/*! \brief How often a block ran in the section that runs now. */
typedef struct Run {
  Block* block;
  uint64_t count;
} Run;

typedef struct Section {
  size_t region;                         // as of a block
  uint64_t bytes, l1_misses, l2_misses;  // when it began
} Section;

static bool by_call;
static Region* regions;
static Section section;  // that runs now
static Run* runs;
static size_t num_regions, num_sections, num_runs, num_written;
static FILE* file;      // of the sections that have ended
static uint64_t total;  // instructions of these

/*! \brief Makes room for one more of `count` elements, by doubling at each power of two. */
static void* Grow(void* array, size_t count, size_t size) {
  if ((count & (count - 1)) != 0) return array;
  array = realloc(array, (count == 0 ? 1 : 2 * count) * size);
  if (array == NULL) abort();
  return array;
}

// Bytes of a line, and ways of a set in L1 and L2: those of Neoverse N1 and N2 (TRM 100616,
// 102099).
enum { kLine = 64, kL1Ways = 4, kL2Ways = 8 };

/*! \brief A set-associative cache that replaces the least recently used line of a set. */
typedef struct Cache {
  uint64_t* lines;  // of each set from the most recently used on, plus one; 0 is none
  size_t sets;
  size_t ways;
  uint64_t misses;
} Cache;

static Cache l1 = {.ways = kL1Ways}, l2 = {.ways = kL2Ways};
static uint64_t bytes;  // read and written

/*! \brief Whether the cache has the line; it does afterwards. */
static bool Touch(Cache* cache, uint64_t line) {
  uint64_t* set = cache->lines + line % cache->sets * cache->ways;
  size_t way = 0;
  while (way + 1 < cache->ways && set[way] != line + 1) way++;
  bool hit = set[way] == line + 1;
  for (; way > 0; way--) set[way] = set[way - 1];
  set[0] = line + 1;
  cache->misses += !hit;
  return hit;
}

static void OnAccess(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void* data) {
  (void)vcpu, (void)data;
  bytes += UINT64_C(1) << qemu_plugin_mem_size_shift(info);
  // QEMU splits accesses of more than eight bytes: what crosses a line is in two of them.
  if (!Touch(&l1, vaddr / kLine)) Touch(&l2, vaddr / kLine);
}

static void MakeCache(Cache* cache, const char* bytes) {
  cache->sets = strtoull(bytes, NULL, 10) / kLine / cache->ways;
  cache->lines = calloc(cache->sets * cache->ways, sizeof(uint64_t));
  if (cache->sets == 0 || cache->lines == NULL) abort();
}

// Between windows of 500 and of 8,000 instructions an inference of 80,000 differs by 4 %, one of 6
// million by 0.3 %.
enum { kWindow = 2000, kPatience = 50000, kNanoseconds = 20000 };

/*! \brief Where a thread is in time, in instructions since the first mark. */
typedef struct Clock {
  uint64_t now;
  uint32_t runs;  // whether it does, as opposed to sleeping in the kernel
} Clock;

static Clock clocks[kMaxThreads];
static uint64_t woken;         // time at which a thread woke another one last
static uint32_t num_clocks;    // threads from 0 on that may run
static uint32_t keeping_step;  // between the marks

// Other threads may read and write at the same time.
#define READ(value) __atomic_load_n(&(value), __ATOMIC_RELAXED)
#define WRITE(value, to) __atomic_store_n(&(value), to, __ATOMIC_RELAXED)

/*! \brief Returns a thread that runs and is more than a window behind another; -1 if there is none.
 */
static int Behind(unsigned int vcpu) {
  for (unsigned int i = 0; i < READ(num_clocks); i++) {
    if (READ(clocks[i].runs) && READ(clocks[i].now) + kWindow < READ(clocks[vcpu].now))
      return (int)i;
  }
  return -1;
}

static void KeepStep(unsigned int vcpu, uint64_t instructions) {
  Clock* clock = &clocks[vcpu];
  if (!READ(clock->runs)) {
    if (READ(clock->now) < READ(woken)) WRITE(clock->now, READ(woken));
    WRITE(clock->runs, 1);
    if (READ(num_clocks) <= vcpu) WRITE(num_clocks, vcpu + 1);
  }
  WRITE(clock->now, READ(clock->now) + instructions);
  int behind = Behind(vcpu);
  for (int tries = 0; behind >= 0 && READ(keeping_step); tries++) {
    // What does not move for a second sleeps in a call that OnSyscall does not know.
    if (tries % kPatience == kPatience - 1) WRITE(clocks[behind].runs, 0);
    nanosleep(&(struct timespec){0, kNanoseconds}, NULL);
    behind = Behind(vcpu);
  }
}

/*! \brief Notes that a thread is about to sleep, or wakes another. */
static void FollowSleep(unsigned int vcpu, int64_t number, uint64_t futex_operation) {
  enum { kFutex = 98, kExit = 93, kEpoll = 22, kRead = 63, kSelect = 72, kPoll = 73, kSleep = 101 };
  enum { kClockSleep = 115, kAccept = 202, kReceive = 207, kAccept4 = 242 };
  enum { kWait = 0, kWake = 1, kWakeTwo = 5, kWaitMasked = 9, kWakeMasked = 10, kOperation = 127 };
  bool sleeps = number == kExit || number == kEpoll || number == kRead || number == kSelect ||
                number == kPoll || number == kSleep || number == kClockSleep || number == kAccept ||
                number == kReceive || number == kAccept4;
  if (number == kFutex) {
    uint64_t operation = futex_operation & kOperation;
    sleeps = operation == kWait || operation == kWaitMasked;
    bool wakes = operation == kWake || operation == kWakeTwo || operation == kWakeMasked;
    if (wakes && READ(woken) < READ(clocks[vcpu].now)) WRITE(woken, READ(clocks[vcpu].now));
  }
  if (sleeps) WRITE(clocks[vcpu].runs, 0);
}

static void OnExecute(unsigned int vcpu, void* data) {
  if (vcpu >= counters) {
    fprintf(stderr, "count_plugin: more than %d threads\n", kMaxThreads);
    abort();
  }
  Block* block = data;
  uint64_t* count = &block->counts[vcpu];
  WRITE(*count, READ(*count) + 1);
  if (READ(keeping_step)) KeepStep(vcpu, block->size);
}

static void WriteBlock(const Block* block, uint64_t count) {
  fprintf(file, "%" PRIx64 " %" PRIu64, block->vaddr, count);
  for (size_t i = 0; i < block->size; i++) fprintf(file, " %08" PRIx32, block->words[i]);
  fputc('\n', file);
}

static void EndSection(void) {
  for (size_t i = 0; i < num_runs; i++) {
    Block* block = runs[i].block;
    total += runs[i].count * block->size;
    if (block->number != 0) continue;
    WriteBlock(block, 0);
    block->number = ++num_written;
  }
  fprintf(file, "#section %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
          section.region == 0 ? 0 : regions[section.region - 1].begin, bytes - section.bytes,
          l1.misses - section.l1_misses, l2.misses - section.l2_misses);
  for (size_t i = 0; i < num_runs; i++)
    fprintf(file, " %zu:%" PRIu64, runs[i].block->number - 1, runs[i].count);
  fputc('\n', file);
  fflush(file);
}

static void BeginSection(size_t region) {
  section = (Section){region, bytes, l1.misses, l2.misses};
  num_sections++;
  num_runs = 0;
}

static void OnExecuteInSection(unsigned int vcpu, void* data) {
  (void)vcpu;
  Block* block = data;
  if (file == NULL) return;  // not between the marks
  if (block->region != 0 &&
      (block->region != section.region || block->vaddr == regions[block->region - 1].begin)) {
    EndSection();
    BeginSection(block->region);
  }
  if (block->section != num_sections) {
    block->section = num_sections;
    block->run = num_runs;
    runs = Grow(runs, num_runs, sizeof(Run));
    runs[num_runs++] = (Run){block, 0};
  }
  runs[block->run].count++;
}

static void FindRegion(Block* block) {
  block->region = 0;
  for (size_t i = 0; i < num_regions; i++) {
    if (regions[i].begin <= block->vaddr && block->vaddr < regions[i].end) block->region = i + 1;
  }
}

static void AddRegion(uint64_t begin, uint64_t end) {
  regions = Grow(regions, num_regions, sizeof(Region));
  regions[num_regions++] = (Region){begin, end};
  for (Block* block = blocks; block != NULL; block = block->next) {
    if (begin <= block->vaddr && block->vaddr < end) block->region = num_regions;
  }
}

static void OnTranslate(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  size_t size = qemu_plugin_tb_n_insns(tb);
  Block* block = calloc(1, sizeof(Block) + size * sizeof(uint32_t));
  uint64_t* counts = calloc(counters, sizeof(uint64_t));
  if (block == NULL || counts == NULL) abort();
  block->counts = counts;
  block->vaddr = qemu_plugin_tb_vaddr(tb);
  block->size = size;
  for (size_t i = 0; i < size; i++) {
    struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    memcpy(&block->words[i], qemu_plugin_insn_data(insn), sizeof(uint32_t));
    if (l1.sets > 0) {
      qemu_plugin_register_vcpu_mem_cb(insn, OnAccess, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                       NULL);
    }
  }
  if (by_call)
    qemu_plugin_register_vcpu_tb_exec_cb(tb, OnExecuteInSection, QEMU_PLUGIN_CB_NO_REGS, block);
  else if (counters == 1)
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, counts, 1);
  else
    qemu_plugin_register_vcpu_tb_exec_cb(tb, OnExecute, QEMU_PLUGIN_CB_NO_REGS, block);
  pthread_mutex_lock(&blocks_lock);
  FindRegion(block);
  block->next = blocks;
  blocks = block;
  pthread_mutex_unlock(&blocks_lock);
}

/*!
 * \brief Opens the file; not where it cannot be written. The guest may put something else in its
 * place: a named pipe would make the emulator wait.
 */
static void Open(void) {
  if (file != NULL) fclose(file);
  int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  file = fd < 0 ? NULL : fdopen(fd, "w");
  if (file == NULL) perror(out);
}

static void Reset(void) {
  bytes = l1.misses = l2.misses = total = 0;
  num_sections = num_written = 0;
  if (by_call) {
    Open();
    BeginSection(0);
  }
  for (Block* block = blocks; block != NULL; block = block->next) {
    block->section = block->number = 0;
    for (unsigned int i = 0; i < counters; i++) WRITE(block->counts[i], 0);
  }
  for (int i = 0; i < kMaxThreads; i++) WRITE(clocks[i].now, 0);
  WRITE(woken, 0);
  WRITE(keeping_step, counters > 1);
}

/*! \brief Writes the blocks that a thread ran. */
static void WriteThread(unsigned int thread) {
  bool first = true;
  for (Block* block = blocks; block != NULL; block = block->next) {
    uint64_t count = READ(block->counts[thread]);
    if (count == 0) continue;
    if (first && counters > 1) fprintf(file, "#thread %u\n", thread);
    first = false;
    WriteBlock(block, count);
    total += count * block->size;
  }
}

static void Dump(unsigned int vcpu) {
  WRITE(keeping_step, 0);
  if (by_call) {
    if (file == NULL) return;
    EndSection();
  } else {
    Open();
    if (file == NULL) return;
    total = 0;
    for (unsigned int i = 0; i < counters; i++) WriteThread(i);
  }
  if (l1.sets > 0) fprintf(file, "#misses %" PRIu64 " %" PRIu64 "\n", l1.misses, l2.misses);
  if (counters > 1) fprintf(file, "#elapsed %" PRIu64 "\n", READ(clocks[vcpu].now));
  fprintf(file, "#total %" PRIu64 "\n", total);
  fclose(file);
  file = NULL;
}

static void OnSyscall(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t a1,
                      uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                      uint64_t a8);

static void RegisterAll(qemu_plugin_id_t id) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, OnTranslate);
  qemu_plugin_register_vcpu_syscall_cb(id, OnSyscall);
}

/*! \brief Begins to count. */
static void Begin(qemu_plugin_id_t id) {
  bool first = !watching;
  watching = true;
  // Before the next instruction of the guest, this makes QEMU translate anew what it has
  // translated.
  if (first) qemu_plugin_reset(id, RegisterAll);
  if (!first || l1.sets == 0) Reset();
}

static void OnSyscall(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t a1,
                      uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                      uint64_t a8) {
  (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (counters > 1 && vcpu < kMaxThreads) FollowSleep(vcpu, number, a2);
  if (number != kSysClose || a1 < kBeginMark || a1 > kRegionMark) return;
  pthread_mutex_lock(&blocks_lock);
  if (a1 == kBeginMark) {
    Begin(id);
  } else if (a1 == kRegionMark) {
    AddRegion(a2, a3);
  } else {
    Dump(vcpu);
  }
  pthread_mutex_unlock(&blocks_lock);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info, int argc,
                               char** argv) {
  (void)info;
  for (int i = 0; i < argc; i++) {
    if (strncmp(argv[i], "out=", 4) == 0) out = strdup(argv[i] + 4);
    if (strcmp(argv[i], "by_thread=on") == 0) counters = kMaxThreads;
    if (strcmp(argv[i], "calls=on") == 0) by_call = true;
    if (strncmp(argv[i], "l1=", 3) == 0) MakeCache(&l1, argv[i] + 3);
    if (strncmp(argv[i], "l2=", 3) == 0) MakeCache(&l2, argv[i] + 3);
  }
  if (out == NULL) {
    fprintf(stderr, "count_plugin: needs out=FILE\n");
    return -1;
  }
  if (by_call && counters > 1) {
    fprintf(stderr, "count_plugin: calls=on takes one thread\n");
    return -1;
  }
  if ((l1.sets > 0) != (l2.sets > 0)) {
    fprintf(stderr, "count_plugin: l1=BYTES and l2=BYTES go together\n");
    return -1;
  }
  qemu_plugin_register_vcpu_syscall_cb(id, OnSyscall);
  return 0;
}
