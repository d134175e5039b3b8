/* SPDX-License-Identifier: Apache-2.0
 * The classifier with its image and its logits in the arena gives what it gives with buffers of the caller's. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "digits_int8.h"

#define CHECK(condition)                                                                                               \
    if (!(condition)) {                                                                                                \
        printf("line %d: not %s\n", __LINE__, #condition);                                                             \
        return 1;                                                                                                      \
    }

static _Alignas(64) unsigned char arena[DIGITS_INT8_ARENA_IN_PLACE_BYTES];
static float image[DIGITS_INT8_INPUT_IMAGE_ELEMENTS];
static float logits[DIGITS_INT8_OUTPUT_LOGITS_ELEMENTS];

int main(void)
{
    digits_int8_instance model;
    memset(&model, 0, sizeof model);
    CHECK(digits_int8_input_place(NULL, 0) == NULL);
    CHECK(digits_int8_input_place(&model, 0) == NULL);
    CHECK(digits_int8_init(&model, arena, sizeof arena) == DIGITS_INT8_OK);
    void *in = digits_int8_input_place(&model, DIGITS_INT8_INPUT_IMAGE);
    void *out = digits_int8_output_place(&model, DIGITS_INT8_OUTPUT_LOGITS);
    CHECK(in != NULL && out != NULL && in != out);
    CHECK((uintptr_t)in % 64 == 0 && (uintptr_t)out % 64 == 0);
    CHECK((unsigned char *)in >= arena && (unsigned char *)in + sizeof image <= arena + sizeof arena);
    CHECK(digits_int8_input_place(&model, 1) == NULL && digits_int8_output_place(&model, 1) == NULL);
    for (size_t i = 0; i < DIGITS_INT8_INPUT_IMAGE_ELEMENTS; i++) {
        image[i] = (float)(i * 7 % 17);
    }
    const digits_int8_input own_input[] = {{image, sizeof image}};
    const digits_int8_output own_output[] = {{logits, sizeof logits}};
    CHECK(digits_int8_run(&model, own_input, own_output) == DIGITS_INT8_OK);
    const digits_int8_input null_input[] = {{NULL, sizeof image}};
    const digits_int8_output null_output[] = {{NULL, sizeof logits}};
    const digits_int8_input place_input[] = {{in, sizeof image}};
    const digits_int8_output place_output[] = {{out, sizeof logits}};
    const digits_int8_input *const inputs[] = {NULL, null_input, place_input, own_input};
    const digits_int8_output *const outputs[] = {NULL, null_output, place_output};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 3; k++) {
            memcpy(in, image, sizeof image);
            memset(out, 0, i == 3 ? sizeof logits : 0);
            CHECK(digits_int8_run(&model, inputs[i], outputs[k]) == DIGITS_INT8_OK);
            CHECK(memcmp(out, logits, sizeof logits) == 0);
        }
    }
    /* Beside its own place an input is not in the arena, nor an output in the place of an input. */
    const digits_int8_input beside[] = {{(unsigned char *)in + 4, sizeof image}};
    const digits_int8_output crossed[] = {{in, sizeof logits}};
    const digits_int8_output small[] = {{NULL, sizeof logits - 4}};
    CHECK(digits_int8_run(&model, beside, own_output) == DIGITS_INT8_ERROR_OVERLAP);
    CHECK(digits_int8_run(&model, own_input, crossed) == DIGITS_INT8_ERROR_OVERLAP);
    CHECK(digits_int8_run(&model, NULL, small) == DIGITS_INT8_ERROR_TENSOR_BYTES);
    return 0;
}
