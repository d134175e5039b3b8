/* SPDX-License-Identifier: Apache-2.0
 * Runs a library for the lengths of `cases`, and compares what it gives; other lengths, and buffers of other sizes than
 * those of the length, are errors. */
#include <stdio.h>
#include <string.h>

#include "seq.h"
#ifdef SEQ_THREADS
#include "seq_pool.h"
#endif

#define CHECK(condition)                                                                                               \
    if (!(condition)) {                                                                                                \
        printf("line %d: not %s\n", __LINE__, #condition);                                                             \
        return 1;                                                                                                      \
    }
/* What an input or output of the greatest length takes, with a guard behind it. */
enum { MOST = 1 << 16, GUARD = 64 };

/* The number of lengths, and for each: itself, the input x, and the outputs, each as many bytes as it has. */
extern const unsigned char cases[];

static _Alignas(64) unsigned char arena[SEQ_ARENA_IN_PLACE_BYTES];
static _Alignas(64) unsigned char x[MOST], results[SEQ_OUTPUTS][MOST];

static int equal(const seq_tensor *tensor, const unsigned char *found, const unsigned char *expected)
{
    double largest = 0, difference = 0;
    if (tensor->type != SEQ_FLOAT32 || BOUND == 0) {
        return memcmp(found, expected, tensor->bytes) == 0;
    }
    for (size_t i = 0; i < tensor->elements; i++) {
        float a, b;
        memcpy(&a, found + i * sizeof a, sizeof a);
        memcpy(&b, expected + i * sizeof b, sizeof b);
        double off = a < b ? b - a : a - b;
        difference = off <= difference ? difference : off;
        largest = b > largest ? b : -b > largest ? -b : largest;
    }
    return difference <= BOUND * largest;
}

static int check_length(seq_instance *model, size_t length, const unsigned char **data)
{
    seq_tensor tensor;
    seq_output outputs[SEQ_OUTPUTS];
    CHECK(seq_input_tensor(length, SEQ_INPUT_X, &tensor) == &tensor);
    const seq_input input = {x, tensor.bytes};
    const seq_input other = {x, tensor.bytes + 4};
    memcpy(x, *data, tensor.bytes);
    *data += tensor.bytes;
    memset(results, 0x5A, sizeof results);
    for (size_t i = 0; i < SEQ_OUTPUTS; i++) {
        CHECK(seq_output_tensor(length, i, &tensor) == &tensor && tensor.bytes <= MOST - GUARD);
        outputs[i].data = results[i];
        outputs[i].bytes = tensor.bytes;
    }
    CHECK(seq_run(model, length, &other, outputs) == SEQ_ERROR_TENSOR_BYTES);
    CHECK(seq_run(model, length, &input, outputs) == SEQ_OK);
    void *place = seq_input_place(model, SEQ_INPUT_X);
    CHECK(place != NULL);
    memcpy(place, x, input.bytes);
    CHECK(seq_run(model, length, NULL, NULL) == SEQ_OK);
    for (size_t i = 0; i < SEQ_OUTPUTS; i++) {
        CHECK(seq_output_tensor(length, i, &tensor) == &tensor);
        CHECK(equal(&tensor, results[i], *data));
        CHECK(memcmp(seq_output_place(model, i), results[i], tensor.bytes) == 0);
        for (size_t k = 0; k < GUARD; k++) {
            CHECK(results[i][tensor.bytes + k] == 0x5A);
        }
        *data += tensor.bytes;
    }
    return 0;
}

static int check_all(seq_instance *model)
{
    const unsigned char *data = cases;
    for (size_t count = *data++; count != 0; count--) {
        const size_t length = *data++;
        if (check_length(model, length, &data) != 0) {
            printf("for a length of %lu\n", (unsigned long)length);
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    seq_instance model;
    seq_tensor tensor;
    const size_t wrong[] = {0, SEQ_LENGTH_MAX + 1, (size_t)-1};
#ifdef SEQ_THREADS
    seq_threads threads;
    CHECK(seq_pool_create(&threads, SEQ_THREADS) == 0);
    CHECK(seq_init(&model, arena, sizeof arena, &threads.pool) == SEQ_OK);
    CHECK(check_all(&model) == 0);
    seq_pool_destroy(&threads);
    CHECK(seq_init(&model, arena, sizeof arena, NULL) == SEQ_OK);
#else
    CHECK(seq_init(&model, arena, sizeof arena) == SEQ_OK);
#endif
    CHECK(check_all(&model) == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(seq_run(&model, wrong[i], NULL, NULL) == SEQ_ERROR_LENGTH);
        CHECK(seq_input_tensor(wrong[i], 0, &tensor) == NULL && seq_output_tensor(wrong[i], 0, &tensor) == NULL);
    }
    CHECK(seq_input_tensor(1, SEQ_INPUTS, &tensor) == NULL && seq_output_tensor(1, SEQ_OUTPUTS, &tensor) == NULL);
    CHECK(seq_input_tensor(1, 0, NULL) == NULL);
    CHECK(seq_input_tensor(SEQ_LENGTH_MAX, 0, &tensor)->bytes == SEQ_INPUT_X_BYTES);
    CHECK(seq_run(NULL, 1, NULL, NULL) == SEQ_ERROR_NULL);
    printf("all lengths agree\n");
    return 0;
}
