/* SPDX-License-Identifier: Apache-2.0
 * Regions of memory are checked one by one, and against each other. */
#include "mapped.h"

extern const unsigned char mapped_weights_file[];
static _Alignas(64) unsigned char fast[MAPPED_FAST_IN_PLACE_BYTES + 64], slow[MAPPED_SLOW_IN_PLACE_BYTES + 64];

static mapped_status begun(mapped_instance *model, void *one, size_t bytes, void *other, size_t other_bytes)
{
    return mapped_init(model, one, bytes, other, other_bytes, mapped_weights_file, MAPPED_WEIGHTS_BYTES);
}

int main(void)
{
    static mapped_instance model;
    if (MAPPED_FAST_BYTES > 256 || MAPPED_REGIONS != 2) {
        return 1;
    }
    if (begun(&model, fast, sizeof fast, slow, sizeof slow) != MAPPED_OK) {
        return 2;
    }
    if (begun(&model, NULL, sizeof fast, slow, sizeof slow) != MAPPED_ERROR_NULL ||
        begun(&model, fast, sizeof fast, NULL, sizeof slow) != MAPPED_ERROR_NULL) {
        return 3;
    }
    if (begun(&model, fast, MAPPED_FAST_BYTES - 1, slow, sizeof slow) != MAPPED_ERROR_ARENA_BYTES ||
        begun(&model, fast, sizeof fast, slow, MAPPED_SLOW_BYTES - 1) != MAPPED_ERROR_ARENA_BYTES) {
        return 4;
    }
    if (begun(&model, fast, sizeof fast, slow + 32, sizeof slow - 32) != MAPPED_ERROR_ALIGNMENT) {
        return 5;
    }
    if (begun(&model, slow, sizeof slow, slow, sizeof slow) != MAPPED_ERROR_OVERLAP) {
        return 6;
    }
    return 0;
}
