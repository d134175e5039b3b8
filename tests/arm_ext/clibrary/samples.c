/* SPDX-License-Identifier: Apache-2.0
 * Any number of samples gives what each of them gives alone. */
#include <stdio.h>
#include <string.h>

#include "mean.h"

#define CHECK(condition)                                                                                               \
    if (!(condition)) {                                                                                                \
        printf("line %d: not %s\n", __LINE__, #condition);                                                             \
        return 1;                                                                                                      \
    }

enum { MOST = 31 };

static _Alignas(64) unsigned char arena[MEAN_ARENA_IN_PLACE_BYTES];
static float x[MOST * MEAN_INPUT_X_ELEMENTS], all[MEAN_INPUT_ALL_ELEMENTS];
static float y[MOST * MEAN_OUTPUT_Y_ELEMENTS + 1], alone[MEAN_OUTPUT_Y_ELEMENTS];

int main(void)
{
    const size_t counts[] = {0, 1, 2, 7, 8, 9, MOST};
    mean_instance model;
    mean_tensor tensor;
    CHECK(mean_init(&model, arena, sizeof arena) == MEAN_OK);
    CHECK(mean_input_place(&model, 0) == NULL && mean_output_place(&model, 0) == NULL);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        x[i] = (float)(i % 13) / 13;
        all[i % MEAN_INPUT_ALL_ELEMENTS] = (float)(i % 7) / 7;
    }
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const size_t count = counts[k];
        const mean_input inputs[] = {{x, count * MEAN_INPUT_X_BYTES}, {all, sizeof all}};
        const mean_output outputs[] = {{y, count * MEAN_OUTPUT_Y_BYTES}};
        memset(y, 0x5A, sizeof y);
        CHECK(mean_run(&model, count, inputs, outputs) == MEAN_OK);
        CHECK(mean_run(&model, count + 1, inputs, outputs) == MEAN_ERROR_TENSOR_BYTES);
        CHECK(*((unsigned char *)y + outputs[0].bytes) == 0x5A);
        CHECK(mean_output_tensor(count, 0, &tensor)->shape[0] == count && tensor.bytes == outputs[0].bytes);
        for (size_t i = 0; i < count; i++) {
            const mean_input one[] = {{x + i * MEAN_INPUT_X_ELEMENTS, MEAN_INPUT_X_BYTES}, {all, sizeof all}};
            const mean_output result[] = {{alone, sizeof alone}};
            CHECK(mean_run(&model, 1, one, result) == MEAN_OK);
            CHECK(memcmp(alone, y + i * MEAN_OUTPUT_Y_ELEMENTS, sizeof alone) == 0);
        }
    }
    CHECK(mean_run(&model, 1, NULL, NULL) == MEAN_ERROR_NULL);
    CHECK(mean_run(&model, MEAN_SAMPLES_MAX + 1, NULL, NULL) == MEAN_ERROR_LENGTH);
    CHECK(mean_input_tensor(MEAN_SAMPLES_MAX + 1, 0, &tensor) == NULL);
    CHECK(mean_input_tensor(MEAN_SAMPLES_MAX, 0, &tensor)->shape[0] == MEAN_SAMPLES_MAX);
    CHECK(mean_input_tensor(3, 1, &tensor)->bytes == sizeof all);
    printf("all samples agree\n");
    return 0;
}
