/* SPDX-License-Identifier: Apache-2.0
 * Rows of a table by number: a number that is none of a row gives a code, and the next run is as if it had not been. */
#include "lookup.h"

static _Alignas(64) unsigned char arena[LOOKUP_ARENA_BYTES];

static lookup_status look_up(lookup_instance *instance, int64_t last, float *rows)
{
    const int64_t ids[LOOKUP_INPUT_IDS_ELEMENTS] = {0, 4, last};
    const lookup_input inputs[] = {{ids, sizeof ids}};
    const lookup_output outputs[] = {{rows, LOOKUP_OUTPUT_ROWS_BYTES}};
    return lookup_run(instance, inputs, outputs);
}

int main(void)
{
    float rows[LOOKUP_OUTPUT_ROWS_ELEMENTS];
    lookup_instance instance;
    if (lookup_init(&instance, arena, sizeof arena) != LOOKUP_OK ||
        look_up(&instance, 5, rows) != LOOKUP_ERROR_INDEX ||
        look_up(&instance, INT64_MAX, rows) != LOOKUP_ERROR_INDEX || look_up(&instance, 3, rows) != LOOKUP_OK) {
        return 1;
    }
    return rows[4] == 16 && rows[8] == 12 ? 0 : 2;
}
