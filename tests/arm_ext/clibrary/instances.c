/* SPDX-License-Identifier: Apache-2.0
 * Eight threads with an instance each, whose arenas begin with other bytes: in each round each gives what one by itself
 * gave, and writes nothing beside its arena and its outputs. ROUNDS is how often. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "digits_int8.h"

enum { THREADS = 8, SAMPLES = 16, LINE = 64, GUARD = 256, PLACE = 1 << 12 };

typedef struct {
    _Alignas(LINE) unsigned char arena[DIGITS_INT8_ARENA_BYTES];
    _Alignas(LINE) unsigned char guard[GUARD];
    _Alignas(LINE) unsigned char inputs[DIGITS_INT8_INPUTS][PLACE];
    _Alignas(LINE) unsigned char outputs[DIGITS_INT8_OUTPUTS][PLACE];
    digits_int8_instance instance;
    int number;
    unsigned long differ;
} runner;

static runner runners[THREADS];
static unsigned char expected[SAMPLES][DIGITS_INT8_OUTPUTS][PLACE];

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Fills an arena with zeros, ones, or random bits. */
static void fill(unsigned char *arena, unsigned kind)
{
    unsigned state = kind;
    for (size_t i = 0; i < DIGITS_INT8_ARENA_BYTES; i++) {
        arena[i] = (unsigned char)(kind % 3 == 0 ? 0 : kind % 3 == 1 ? 0xFF : next(&state));
    }
}

/* Leaves other bytes where the stack of the next call lies. */
static __attribute__((noinline)) void fill_stack(unsigned kind)
{
    volatile unsigned char stack[1 << 14];
    unsigned state = kind;
    for (size_t i = 0; i < sizeof stack; i++) {
        stack[i] = (unsigned char)(kind % 3 == 0 ? 0 : kind % 3 == 1 ? 0xFF : next(&state));
    }
}

static int is_zero(const unsigned char *bytes, size_t count)
{
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static int run(runner *own, unsigned sample)
{
    digits_int8_input inputs[DIGITS_INT8_INPUTS];
    digits_int8_output outputs[DIGITS_INT8_OUTPUTS];
    unsigned state = sample;
    for (size_t i = 0; i < DIGITS_INT8_INPUTS; i++) {
        inputs[i].data = own->inputs[i], inputs[i].bytes = digits_int8_input_tensor(i)->bytes;
        for (size_t k = 0; k < inputs[i].bytes / sizeof(float); k++) {
            ((float *)(void *)own->inputs[i])[k] = (float)(next(&state) % 512) / 128 - 2;
        }
    }
    memset(own->outputs, 0, sizeof own->outputs);
    for (size_t i = 0; i < DIGITS_INT8_OUTPUTS; i++) {
        outputs[i].data = own->outputs[i], outputs[i].bytes = digits_int8_output_tensor(i)->bytes;
    }
    memset(own->guard, 0, sizeof own->guard);
    if (digits_int8_run(&own->instance, inputs, outputs) != DIGITS_INT8_OK) {
        return 0;
    }
    for (size_t i = 0; i < DIGITS_INT8_OUTPUTS; i++) {
        if (!is_zero(own->outputs[i] + outputs[i].bytes, PLACE - outputs[i].bytes)) {
            return 0;
        }
    }
    return is_zero(own->guard, sizeof own->guard);
}

static void *rounds(void *given)
{
    runner *own = given;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned sample = (round + (unsigned)own->number) % SAMPLES;
        if (round % SAMPLES == 0) { /* another arena, as a new instance has it */
            fill(own->arena, round / SAMPLES + (unsigned)own->number);
            fill_stack(round / SAMPLES + (unsigned)own->number + 1);
            if (digits_int8_init(&own->instance, own->arena, sizeof own->arena) != DIGITS_INT8_OK) {
                own->differ++;
            }
        }
        if (!run(own, sample) || memcmp(own->outputs, expected[sample], sizeof own->outputs) != 0) {
            own->differ++;
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    unsigned long differ = 0;
    if (digits_int8_init(&runners[0].instance, runners[0].arena, sizeof runners[0].arena) != DIGITS_INT8_OK) {
        return 2;
    }
    for (unsigned sample = 0; sample < SAMPLES; sample++) {
        if (!run(&runners[0], sample)) {
            return 3;
        }
        memcpy(expected[sample], runners[0].outputs, sizeof expected[sample]);
    }
    for (int i = 0; i < THREADS; i++) {
        runners[i].number = i;
        if (pthread_create(&threads[i], NULL, rounds, &runners[i]) != 0) {
            return 4;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_join(threads[i], NULL) != 0) {
            return 5;
        }
        differ += runners[i].differ;
    }
    printf("%lu of %lu runs differ\n", differ, (unsigned long)THREADS * ROUNDS);
    return differ != 0;
}
