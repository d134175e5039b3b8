/* SPDX-License-Identifier: Apache-2.0
 * Weights that are not the model's, whole and aligned, are refused. */
#include <string.h>

#include "mapped.h"

extern const unsigned char mapped_weights_file[];

static _Alignas(64) unsigned char fast[MAPPED_FAST_BYTES], slow[MAPPED_SLOW_BYTES];
static _Alignas(64) unsigned char copy[MAPPED_WEIGHTS_BYTES + 64];
static mapped_instance instance;

static int refused(const void *weights, size_t bytes, mapped_status expected)
{
    return mapped_init(&instance, fast, sizeof fast, slow, sizeof slow, weights, bytes) == expected;
}

int main(void)
{
    memcpy(copy, mapped_weights_file, MAPPED_WEIGHTS_BYTES);
    if (!refused(copy, MAPPED_WEIGHTS_BYTES, MAPPED_OK) || !refused(NULL, MAPPED_WEIGHTS_BYTES, MAPPED_ERROR_NULL) ||
        !refused(copy + 1, MAPPED_WEIGHTS_BYTES, MAPPED_ERROR_ALIGNMENT) ||
        !refused(copy, MAPPED_WEIGHTS_BYTES - 1, MAPPED_ERROR_WEIGHTS) ||
        !refused(slow, MAPPED_WEIGHTS_BYTES, MAPPED_ERROR_OVERLAP)) {
        return 1;
    }
    for (size_t i = 0; i < MAPPED_WEIGHTS_BYTES; i++) {
        copy[i] ^= 1;
        if (!refused(copy, MAPPED_WEIGHTS_BYTES, MAPPED_ERROR_WEIGHTS)) {
            return 2;
        }
        copy[i] ^= 1;
    }
    return 0;
}
