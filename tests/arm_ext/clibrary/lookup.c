/* SPDX-License-Identifier: Apache-2.0
 * Rows of two tables by number: a number that is none of a row gives a code and the node's name, and the next run is as
 * if it had not been. */
#include <string.h>

#include "lookup.h"

static _Alignas(64) unsigned char arena[LOOKUP_ARENA_BYTES];
static float rows[LOOKUP_OUTPUT_ROWS_ELEMENTS];
static float others[LOOKUP_OUTPUT_OTHERS_ELEMENTS];

static lookup_status look_up(lookup_instance *instance, int64_t last, int64_t other, size_t bytes)
{
    const int64_t ids[LOOKUP_INPUT_IDS_ELEMENTS] = {0, 4, last};
    const int64_t more[LOOKUP_INPUT_MORE_ELEMENTS] = {other};
    const lookup_input inputs[] = {{ids, bytes}, {more, sizeof more}};
    const lookup_output outputs[] = {{rows, sizeof rows}, {others, sizeof others}};
    return lookup_run(instance, inputs, outputs);
}

static int tells(const lookup_instance *instance, const char *expected)
{
    const char *found = lookup_failure(instance);
    return found == NULL || expected == NULL ? found == expected : strcmp(found, expected) == 0;
}

int main(void)
{
    static const char first[] = "node 'look up': an index is out of bounds for an axis of size 5";
    static const char second[] = "node 'look further': an index is out of bounds for an axis of size 7";
    lookup_instance instance;
    memset(&instance, 0xFF, sizeof instance);
    if (!tells(&instance, NULL) || lookup_init(&instance, arena, sizeof arena) != LOOKUP_OK || !tells(&instance, NULL) || !tells(NULL, NULL)) {
        return 1;
    }
    if (look_up(&instance, 5, 6, LOOKUP_INPUT_IDS_BYTES) != LOOKUP_ERROR_INDEX || !tells(&instance, first)) {
        return 2;
    }
    if (look_up(&instance, 3, 7, LOOKUP_INPUT_IDS_BYTES) != LOOKUP_ERROR_INDEX || !tells(&instance, second)) {
        return 3;
    }
    if (look_up(&instance, 3, 6, LOOKUP_INPUT_IDS_BYTES - 1) != LOOKUP_ERROR_TENSOR_BYTES || !tells(&instance, NULL)) {
        return 4;
    }
    if (look_up(&instance, INT64_MAX, 6, LOOKUP_INPUT_IDS_BYTES) != LOOKUP_ERROR_INDEX || !tells(&instance, first)) {
        return 5;
    }
    if (look_up(&instance, 3, 6, LOOKUP_INPUT_IDS_BYTES) != LOOKUP_OK || !tells(&instance, NULL)) {
        return 6;
    }
    return rows[4] == 16 && rows[8] == 12 && others[0] == 12 ? 0 : 7;
}
