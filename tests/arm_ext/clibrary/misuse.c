/* SPDX-License-Identifier: Apache-2.0
 * Calls of the API with one thing or several wrong, drawn at random: each gives a code, and none writes elsewhere. */
#include <stdio.h>
#include <string.h>

#include "digits_int8.h"

enum { ROUNDS = 20000, ROOM = 64 };

static _Alignas(64) unsigned char memory[DIGITS_INT8_ARENA_IN_PLACE_BYTES + 2 * ROOM];
static _Alignas(64) unsigned char image[DIGITS_INT8_INPUT_IMAGE_BYTES + 2 * ROOM];
static _Alignas(64) unsigned char logits[DIGITS_INT8_OUTPUT_LOGITS_BYTES + 2 * ROOM];
static unsigned long seed = 1;

static unsigned long draw(unsigned long below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static int failed(const char *what, unsigned long round)
{
    printf("round %lu: %s\n", round, what);
    return 1;
}

int main(void)
{
    unsigned long counts[8] = {0};
    for (unsigned long round = 0; round < ROUNDS; round++) {
        union {
            digits_int8_instance instance;
            unsigned char bytes[sizeof(digits_int8_instance)];
        } here;
        for (size_t i = 0; i < sizeof here.bytes; i++) {
            here.bytes[i] = (unsigned char)draw(256);
        }
        digits_int8_input input = {image + ROOM, DIGITS_INT8_INPUT_IMAGE_BYTES};
        digits_int8_output output = {logits + ROOM, DIGITS_INT8_OUTPUT_LOGITS_BYTES};
        digits_int8_status expected = DIGITS_INT8_OK;
        digits_int8_instance *instance = &here.instance;
        unsigned char *arena = memory + ROOM;
        size_t bytes = draw(2) ? DIGITS_INT8_ARENA_BYTES : DIGITS_INT8_ARENA_IN_PLACE_BYTES;
        int initialised = draw(8) != 0;
        int is_null = 0;
        digits_int8_status status;
        if (initialised) {
            switch (draw(6)) {
            case 0:
                arena = NULL, expected = DIGITS_INT8_ERROR_NULL;
                break;
            case 1:
                arena += 1 + draw(ROOM - 1), expected = DIGITS_INT8_ERROR_ALIGNMENT;
                break;
            case 2:
                bytes = draw(DIGITS_INT8_ARENA_BYTES), expected = DIGITS_INT8_ERROR_ARENA_BYTES;
                break;
            case 3:
                if (digits_int8_init(NULL, arena, bytes) != DIGITS_INT8_ERROR_NULL) {
                    return failed("no instance is accepted", round);
                }
                break;
            default:
                break;
            }
            status = digits_int8_init(instance, arena, bytes);
            counts[status]++;
            if (status != expected) {
                return failed(digits_int8_strerror(status), round);
            }
            if (status != DIGITS_INT8_OK) {
                continue;
            }
        } else {
            expected = DIGITS_INT8_ERROR_INSTANCE;
        }
        if (initialised) {
            switch (draw(10)) {
            case 0:
                input.bytes += 1 + draw(8), expected = DIGITS_INT8_ERROR_TENSOR_BYTES;
                break;
            case 1:
                output.bytes -= 1 + draw(8), expected = DIGITS_INT8_ERROR_TENSOR_BYTES;
                break;
            case 2:
                input.data = NULL, is_null = 1;
                break;
            case 3:
                output.data = logits + ROOM + 1 + draw(3), expected = DIGITS_INT8_ERROR_ALIGNMENT;
                break;
            case 4:
                output.data = image + ROOM + 4 * draw(64), expected = DIGITS_INT8_ERROR_OVERLAP;
                break;
            case 5:
                output.data = arena + 4 * draw(DIGITS_INT8_ARENA_BYTES / 4), expected = DIGITS_INT8_ERROR_OVERLAP;
                break;
            case 6:
                input.data = arena + 4 * draw(DIGITS_INT8_ARENA_BYTES / 4), expected = DIGITS_INT8_ERROR_OVERLAP;
                break;
            case 7:
                output.data = NULL, is_null = 1;
                break;
            default:
                break;
            }
            void *in = digits_int8_input_place(instance, 0);
            void *out = digits_int8_output_place(instance, 0);
            if ((in != NULL) != (bytes >= DIGITS_INT8_ARENA_IN_PLACE_BYTES) || (out != NULL) != (in != NULL)) {
                return failed("there is a place without room for it", round);
            }
            if (is_null) {
                expected = in != NULL ? DIGITS_INT8_OK : DIGITS_INT8_ERROR_NULL;
            }
            if (expected == DIGITS_INT8_ERROR_OVERLAP && (input.data == in || output.data == out)) {
                expected = DIGITS_INT8_OK;
            }
        }
        memset(logits, 0x55, sizeof logits);
        status = digits_int8_run(instance, &input, &output);
        counts[status]++;
        if (status != expected) {
            return failed(digits_int8_strerror(status), round);
        }
        for (size_t i = 0; i < sizeof logits; i++) {
            int is_output = i >= ROOM && i < ROOM + DIGITS_INT8_OUTPUT_LOGITS_BYTES;
            if (logits[i] != 0x55 && (status != DIGITS_INT8_OK || !is_output)) {
                return failed("a byte beside the output was written", round);
            }
        }
        for (size_t i = 0; i < ROOM; i++) {
            if (memory[i] != 0 || memory[ROOM + DIGITS_INT8_ARENA_IN_PLACE_BYTES + i] != 0) {
                return failed("a byte beside the arena was written", round);
            }
        }
        digits_int8_status null = DIGITS_INT8_ERROR_NULL;
        if (status == DIGITS_INT8_OK && digits_int8_input_place(instance, 0) != NULL) {
            null = DIGITS_INT8_OK;
        }
        if (digits_int8_run(NULL, &input, &output) != DIGITS_INT8_ERROR_NULL ||
            (status == DIGITS_INT8_OK && (digits_int8_run(instance, NULL, &output) != null ||
                                          digits_int8_run(instance, &input, NULL) != null))) {
            return failed("a null pointer is taken for something else", round);
        }
        digits_int8_instance copy = here.instance;
        if (digits_int8_run(&copy, &input, &output) != DIGITS_INT8_ERROR_INSTANCE) {
            return failed("a copy of an instance is accepted", round);
        }
    }
    for (size_t status = 0; status < 7; status++) {
        if (counts[status] < ROUNDS / 100) {
            return failed("a status was hardly seen", status);
        }
    }
    return 0;
}
