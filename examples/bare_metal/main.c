/* SPDX-License-Identifier: Apache-2.0
 * The classifier of handwritten digits without an operating system and without a C library: its self-test. */
#include "digits_int8.h"

void print(const char *text);
extern const unsigned char digits_int8_selftest[]; /* the library's example/selftest.S: inputs, then outputs */

/* What C compilers call in any program; the library asks for no more. */
void *memcpy(void *restrict target, const void *restrict source, size_t bytes)
{
    unsigned char *to = target;
    const unsigned char *from = source;
    while (bytes-- != 0) {
        *to++ = *from++;
    }
    return target;
}

void *memset(void *target, int value, size_t bytes)
{
    unsigned char *to = target;
    while (bytes-- != 0) {
        *to++ = (unsigned char)value;
    }
    return target;
}

static _Alignas(64) unsigned char arena[DIGITS_INT8_ARENA_BYTES];
static digits_int8_instance instance;
static float logits[DIGITS_INT8_OUTPUT_LOGITS_ELEMENTS];

int main(void)
{
    const unsigned char *expected = digits_int8_selftest + (DIGITS_INT8_INPUT_IMAGE_BYTES + 63) / 64 * 64;
    const digits_int8_input inputs[] = {{digits_int8_selftest, DIGITS_INT8_INPUT_IMAGE_BYTES}};
    const digits_int8_output outputs[] = {{logits, sizeof logits}};
    digits_int8_status status = digits_int8_init(&instance, arena, sizeof arena);
    if (status == DIGITS_INT8_OK) {
        status = digits_int8_run(&instance, inputs, outputs);
    }
    if (status != DIGITS_INT8_OK) {
        print(digits_int8_strerror(status));
        return 2;
    }
    for (size_t i = 0; i < sizeof logits; i++) {
        if (((const unsigned char *)logits)[i] != expected[i]) {
            print("the outputs differ\n");
            return 1;
        }
    }
    print("digits_int8: all outputs agree\n");
    return 0;
}
