// SPDX-License-Identifier: Apache-2.0
// Prints the preamble for region 1, and of each stream in the file what the runtime takes Linux's
// driver to make of it. A stream is u32 words and the words.
#include <stdio.h>
#include <stdlib.h>

#include "npu_stream.h"

int main(int, char** argv) {
  using arm_ext::kPreambleWords;
  constexpr uint32_t kRegion = 1;
  uint32_t preamble[kPreambleWords];
  arm_ext::Preamble(kRegion, preamble);
  for (uint32_t word : preamble) printf("%u ", word);
  FILE* file = fopen(argv[1], "rb");
  uint32_t count;
  while (fread(&count, sizeof(count), 1, file) == 1) {
    uint32_t* words = static_cast<uint32_t*>(malloc(4 * count));
    if (fread(words, 4, count, file) != count) return 1;
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(words);
    arm_ext::DriverView view = arm_ext::LookOver(bytes, 4 * count, kRegion);
    printf("\n%u %d", view.written, view.resizes);
    for (uint64_t size : view.sizes) printf(" %llu", static_cast<unsigned long long>(size));
    free(words);
  }
  fclose(file);
  return 0;
}
