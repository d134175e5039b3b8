/* SPDX-License-Identifier: Apache-2.0
 * A run that ends with an error of the NPU, and what the status says of it. */
#include <stdio.h>
#include <stdlib.h>

#include "mixed_npu_linux.h"

static _Alignas(64) unsigned char arena[MIXED_ARENA_IN_PLACE_BYTES];

int main(void)
{
    mixed_instance model;
    if (mixed_init(&model, arena, sizeof arena, &mixed_npu_linux) != MIXED_OK ||
        mixed_run(&model, NULL, NULL) != MIXED_ERROR_NPU) {
        return 1;
    }
    char *text = mixed_npu_linux_status();
    puts(text);
    free(text);
    return 0;
}
