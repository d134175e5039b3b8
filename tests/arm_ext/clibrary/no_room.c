/* SPDX-License-Identifier: Apache-2.0
 * An arena of the least size has no place for inputs and outputs, where values leave none. */
#include <stdio.h>

#include "root.h"

static _Alignas(64) unsigned char arena[ROOT_ARENA_IN_PLACE_BYTES];
static float values[ROOT_INPUT_X_ELEMENTS];

int main(void)
{
    const root_input input[] = {{values, sizeof values}};
    root_instance model;
    if (root_init(&model, arena, ROOT_ARENA_IN_PLACE_BYTES - 1) != ROOT_OK || root_input_place(&model, 0) != NULL ||
        root_output_place(&model, 0) != NULL || root_run(&model, input, NULL) != ROOT_ERROR_NULL) {
        return 1;
    }
    /* What lies beside the instance's part of the arena is the caller's. */
    const root_output beside[] = {{arena + ROOT_ARENA_BYTES, sizeof values}};
    if (root_run(&model, input, beside) != ROOT_OK) {
        return 2;
    }
    if (root_init(&model, arena, sizeof arena) != ROOT_OK || root_run(&model, input, beside) != ROOT_ERROR_OVERLAP) {
        return 3;
    }
    float *place = (float *)root_input_place(&model, 0);
    for (size_t i = 0; i < ROOT_INPUT_X_ELEMENTS; i++) {
        place[i] = (float)(i * i);
    }
    const float *roots = (const float *)root_output_place(&model, 0);
    if (root_run(&model, NULL, NULL) != ROOT_OK) {
        return 4;
    }
    for (size_t i = 0; i < ROOT_INPUT_X_ELEMENTS; i++) {
        if (roots[i] != (float)i) {
            printf("%g is not %zu\n", (double)roots[i], i);
            return 5;
        }
    }
    return 0;
}
