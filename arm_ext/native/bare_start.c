// SPDX-License-Identifier: Apache-2.0
// Start-up code of a program on an emulated Cortex-M without an operating system, and files of the
// emulator's machine by Arm's semihosting calls (Semihosting for AArch32 and AArch64, release 2.0).
#include "bare.h"

extern int main(void);
extern uint32_t bss_begin[], bss_end[], stack_top[];

enum { kOpen = 0x01, kClose = 0x02, kWrite = 0x05, kRead = 0x06, kExit = 0x18 };
enum { kReadBinary = 1, kWriteBinary = 5 };                     // modes of kOpen
enum { kApplicationExit = 0x20026, kInternalError = 0x20024 };  // reasons of kExit
#define CPACR (*(volatile uint32_t*)0xE000ED88)                 // coprocessor access
#define CCR (*(volatile uint32_t*)0xE000ED14)                   // configuration
enum { kFpuAndMve = 0xF << 20, kLowOverheadBranches = 1 << 19, kUnalignedTrap = 1 << 3 };

static intptr_t semihosting(uintptr_t operation, const void* argument) {
  register uintptr_t r0 __asm("r0") = operation;
  register const void* r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return (intptr_t)r0;
}

_Noreturn void end_program(int failed) {
  semihosting(kExit, (const void*)(uintptr_t)(failed ? kInternalError : kApplicationExit));
  for (;;) {
  }
}

int open_file(const char* name, int writes) {
  uintptr_t length = 0;
  while (name[length] != 0) {
    ++length;
  }
  const uintptr_t block[] = {(uintptr_t)name, writes ? kWriteBinary : kReadBinary, length};
  return (int)semihosting(kOpen, block);
}

void close_file(int file) {
  const uintptr_t block[] = {(uintptr_t)file};
  semihosting(kClose, block);
}

// Both operations return how many bytes are left, which of a pipe may be some.
static int all(uintptr_t operation, int file, uintptr_t data, size_t bytes) {
  while (bytes != 0) {
    const uintptr_t block[] = {(uintptr_t)file, data, bytes};
    const intptr_t left = semihosting(operation, block);
    if (left < 0 || (size_t)left >= bytes) {
      return 0;
    }
    data += bytes - (size_t)left;
    bytes = (size_t)left;
  }
  return 1;
}

int read_all(int file, void* data, size_t bytes) {
  return all(kRead, file, (uintptr_t)data, bytes);
}

int write_all(int file, const void* data, size_t bytes) {
  return all(kWrite, file, (uintptr_t)data, bytes);
}

__attribute__((noinline, used)) void counting_mark(void) { __asm volatile("nop"); }

__attribute__((used)) static void begin_program(void) {
#if !defined(BARE_NO_FPU)
  CPACR |= kFpuAndMve;
#endif
#if __ARM_ARCH >= 8 && defined(__ARM_FEATURE_MVE)
  CCR |= kLowOverheadBranches;
#endif
#if defined(BARE_TRAPS_UNALIGNED)
  CCR |= kUnalignedTrap;
#endif
  __asm volatile("dsb\n\tisb");
  for (uint32_t* word = bss_begin; word < bss_end; ++word) {
    *word = 0;
  }
  end_program(main());
}

__attribute__((naked)) static void on_reset(void) { __asm volatile("b begin_program"); }

static void on_fault(void) { end_program(1); }

__attribute__((section(".vectors"), used)) static const void* const vectors[] = {
    stack_top,
    (const void*)on_reset,
    (const void*)on_fault,
    (const void*)on_fault,
    (const void*)on_fault,
    (const void*)on_fault,
    (const void*)on_fault};
