/* SPDX-License-Identifier: Apache-2.0
 * Each shape takes its own sizes, has its own places, and computes what the others do. */
#include <stdio.h>
#include <string.h>

#include "mlp.h"

#define CHECK(condition)                                                                                               \
    if (!(condition)) {                                                                                                \
        printf("line %d: not %s\n", __LINE__, #condition);                                                             \
        return 1;                                                                                                      \
    }

enum { FEATURES = 31, CLASSES = 7, LARGEST = 5 };

static _Alignas(64) unsigned char arena[MLP_ARENA_IN_PLACE_BYTES];
static float x[MLP_INPUT_X_ELEMENTS], y[MLP_OUTPUT_Y_ELEMENTS], alone[CLASSES];

int main(void)
{
    static const size_t samples[MLP_SHAPES] = {1, 2, LARGEST};
    mlp_instance model;
    CHECK(mlp_init(&model, arena, sizeof arena) == MLP_OK);
    for (size_t i = 0; i < MLP_INPUT_X_ELEMENTS; i++) {
        x[i] = (float)(i % 13) / 13;
    }
    CHECK(MLP_SHAPE_1 == 0 && MLP_SHAPE_2 == 1 && MLP_SHAPE_5 == 2);
    for (size_t shape = 0; shape < MLP_SHAPES; shape++) {
        const mlp_input input = {x, samples[shape] * FEATURES * sizeof(float)};
        const mlp_output output = {y, samples[shape] * CLASSES * sizeof(float)};
        CHECK(mlp_input_tensor(shape, 0)->bytes == input.bytes && mlp_input_tensor(shape, 1) == NULL);
        CHECK(mlp_output_tensor(shape, 0)->shape[0] == samples[shape]);
        CHECK(mlp_run(&model, shape, &input, &output) == MLP_OK);
        CHECK(mlp_run(&model, (shape + 1) % MLP_SHAPES, &input, &output) == MLP_ERROR_TENSOR_BYTES);
        void *place = mlp_input_place(&model, shape, 0);
        CHECK(place != NULL);
        memcpy(place, x, input.bytes);
        CHECK(mlp_run(&model, shape, NULL, NULL) == MLP_OK);
        CHECK(memcmp(mlp_output_place(&model, shape, 0), y, output.bytes) == 0);
        for (size_t i = 0; i < samples[shape]; i++) {
            const mlp_input row = {x + i * FEATURES, FEATURES * sizeof(float)};
            const mlp_output logits = {alone, sizeof alone};
            CHECK(mlp_run(&model, MLP_SHAPE_1, &row, &logits) == MLP_OK);
            for (size_t k = 0; k < CLASSES; k++) {
                float difference = alone[k] - y[i * CLASSES + k];
                CHECK(difference < 1e-5F && difference > -1e-5F);
            }
        }
    }
    CHECK(mlp_run(&model, MLP_SHAPES, NULL, NULL) == MLP_ERROR_SHAPE);
    CHECK(mlp_input_place(&model, MLP_SHAPES, 0) == NULL && mlp_output_place(&model, MLP_SHAPES, 0) == NULL);
    CHECK(mlp_input_tensor(MLP_SHAPES, 0) == NULL && mlp_output_tensor(MLP_SHAPES, 0) == NULL);
    return 0;
}
