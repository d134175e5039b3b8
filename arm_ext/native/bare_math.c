// SPDX-License-Identifier: Apache-2.0
// Calls of libm on an emulated Cortex-M with an FPU. The pinned compiler's routines take floats in
// general registers, and the kernels of a library pass them in those of the FPU, as libm takes them
// on a board. The linker gives each function of the lists below as --wrap. For this compiler the
// core has no FPU, so that each statement has to name one.

#define BARE_CALL(name, take, give)                                                          \
  void __wrap_##name(void);                                                                  \
  __attribute__((naked)) void __wrap_##name(void) {                                          \
    __asm volatile(".fpu vfpv4\n\tpush {r4, lr}\n\t" take "\n\tbl __real_" #name "\n\t" give \
                   "\n\tpop {r4, pc}");                                                      \
  }
#define BARE_ONE(name)                                  \
  BARE_CALL(name, "vmov r0, r1, d0", "vmov d0, r0, r1") \
  BARE_CALL(name##f, "vmov r0, s0", "vmov s0, r0")
#define BARE_TWO(name)                                                     \
  BARE_CALL(name, "vmov r0, r1, d0\n\tvmov r2, r3, d1", "vmov d0, r0, r1") \
  BARE_CALL(name##f, "vmov r0, s0\n\tvmov r1, s1", "vmov s0, r0")

BARE_ONE(ceil)
BARE_ONE(cos)
BARE_ONE(exp)
BARE_ONE(exp2)
BARE_ONE(floor)
BARE_ONE(log)
BARE_ONE(log10)
BARE_ONE(log2)
BARE_ONE(round)
BARE_ONE(sin)
BARE_ONE(sqrt)
BARE_ONE(tan)
BARE_ONE(trunc)
BARE_TWO(fmax)
BARE_TWO(fmin)
BARE_TWO(fmod)
