/* SPDX-License-Identifier: Apache-2.0
 * Prints how many bytes of stack below its caller `init` and `run` of the classifier write, where a pattern was. */
#include <stdio.h>

#include "digits_int8.h"

enum { BYTES = 1 << 14, PATTERN = 0xA5 };

static _Alignas(64) unsigned char arena[DIGITS_INT8_ARENA_BYTES];
static float image[DIGITS_INT8_INPUT_IMAGE_ELEMENTS];
static float logits[DIGITS_INT8_OUTPUT_LOGITS_ELEMENTS];
static digits_int8_instance instance;
static const digits_int8_input input = {image, sizeof image};
static const digits_int8_output output = {logits, sizeof logits};

int main(void)
{
    volatile unsigned char *end;
    __asm__ volatile("mov %0, sp" : "=r"(end));
    /* Loops without a call: what is below the stack pointer is nobody's. */
    for (long i = 1; i <= BYTES; i++) {
        end[-i] = PATTERN;
    }
    int failed = digits_int8_init(&instance, arena, sizeof arena) != DIGITS_INT8_OK ||
                 digits_int8_run(&instance, &input, &output) != DIGITS_INT8_OK;
    long used = BYTES;
    while (used > 0 && end[-used] == PATTERN) {
        used--;
    }
    printf("%ld\n", used);
    return failed;
}
