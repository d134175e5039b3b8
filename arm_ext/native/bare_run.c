// SPDX-License-Identifier: Apache-2.0
// Runs the model of a C library on an emulated Cortex-M. The file "inputs" holds the inputs of one
// run after the other; the file "outputs" gets, for each run, a word of status and the outputs, and
// at the end a word of the largest stack that a run took.
//
// The compiler is told BARE_HEADER, the library's header in quotes, BARE_PREFIX and BARE_UPPER,
// what its functions and macros begin with, BARE_INPUT_BYTES and BARE_OUTPUT_BYTES, the sums over
// all tensors, each a multiple of 16, BARE_STEPS, whether the runs are steps of a model with
// states, and BARE_NPU: 1 if the model has regions for an NPU, which bare_npu.c runs, 2 if it has,
// but there is no NPU, else 0; BARE_NPU_HEADER is then the header of the library's driver.
#include "bare.h"

#include BARE_HEADER
#if BARE_NPU
#include BARE_NPU_HEADER
#endif

#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define NAME(suffix) JOINED(BARE_PREFIX, suffix)
#define MACRO(suffix) JOINED(BARE_UPPER, suffix)

#if BARE_STEPS
#define INPUTS MACRO(_STEP_INPUTS)
#define OUTPUTS MACRO(_STEP_OUTPUTS)
#define COMPUTE NAME(_step)
#else
#define INPUTS MACRO(_INPUTS)
#define OUTPUTS MACRO(_OUTPUTS)
#define COMPUTE NAME(_run)
#endif

enum { kAligned = 16, kPainted = 0x5AFE57AC, kReserve = 64 };

extern uint32_t stack_bottom[];

static _Alignas(64) unsigned char arena[MACRO(_ARENA_BYTES)];
static _Alignas(kAligned) unsigned char given[BARE_INPUT_BYTES + kAligned];
static _Alignas(kAligned) unsigned char computed[BARE_OUTPUT_BYTES + kAligned];
static NAME(_instance) instance;

static size_t padded(size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

static uint32_t* stack_pointer(void) {
  uint32_t* sp;
  __asm volatile("mov %0, sp" : "=r"(sp));
  return sp;
}

__attribute__((noinline)) static uint32_t run_once(const NAME(_input) * inputs,
                                                   const NAME(_output) * outputs,
                                                   uint32_t* status) {
  uint32_t* const from = stack_pointer();
  for (volatile uint32_t* word = stack_bottom; word < from - kReserve / 4; ++word) {
    *word = kPainted;
  }
  counting_mark();
  *status = (uint32_t)COMPUTE(&instance, inputs, outputs);
  counting_mark();
  volatile uint32_t* lowest = stack_bottom;
  while (lowest < from - kReserve / 4 && *lowest == kPainted) {
    ++lowest;
  }
  return (uint32_t)((uintptr_t)from - (uintptr_t)lowest);
}

#if BARE_NPU
struct ethosu_driver* npu_driver(void);
void npu_clean(void* address, size_t bytes);
void npu_invalidate(void* address, size_t bytes);

static NAME(_npu_ethosu) device = {.clean = npu_clean, .invalidate = npu_invalidate};
static const NAME(_npu) npu = {&device, NAME(_npu_ethosu_run)};
#endif

int main(void) {
  const int in = open_file("inputs", 0), out = open_file("outputs", 1);
#if BARE_NPU
  device.driver = BARE_NPU == 1 ? npu_driver() : NULL;
  const int32_t status = NAME(_init)(&instance, arena, sizeof arena, &npu);
#else
  const int32_t status = NAME(_init)(&instance, arena, sizeof arena);
#endif
  if (in < 0 || out < 0 || status != MACRO(_OK)) {
    return 1;
  }
  NAME(_input) inputs[INPUTS + 1];
  NAME(_output) outputs[OUTPUTS + 1];
  uint32_t stack = 0;
  for (uint32_t more; read_all(in, &more, sizeof more);) {
    unsigned char* place = given;
    for (size_t i = 0; i < INPUTS; ++i) {
      const size_t bytes = NAME(_input_tensor)(i)->bytes;
      inputs[i] = (NAME(_input)){place, bytes};
      if (!read_all(in, place, bytes)) {
        return 1;
      }
      place += padded(bytes);
    }
    place = computed;
    for (size_t i = 0; i < OUTPUTS; ++i) {
      const size_t bytes = NAME(_output_tensor)(i)->bytes;
      outputs[i] = (NAME(_output)){place, bytes};
      place += padded(bytes);
    }
    uint32_t result;
    const uint32_t taken = run_once(inputs, outputs, &result);
    stack = taken > stack ? taken : stack;
    int written = write_all(out, &result, sizeof result);
    for (size_t i = 0; i < OUTPUTS; ++i) {
      written &= write_all(out, outputs[i].data, outputs[i].bytes);
    }
    if (!written) {
      return 1;
    }
  }
  const int ended = write_all(out, &stack, sizeof stack);
  close_file(out);
  close_file(in);
  return !ended;
}
