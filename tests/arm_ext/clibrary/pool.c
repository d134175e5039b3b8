/* SPDX-License-Identifier: Apache-2.0
 * Pools of 1, 2 and 4 threads give what one thread gives, and call each task once; pools that are none are refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shared_pool.h"

enum { ROUNDS = 3, REGIONS = 500, MOST_TASKS = 9 };

static _Alignas(64) unsigned char arena[SHARED_ARENA_BYTES];
static float x[SHARED_INPUT_X_ELEMENTS];
static float expected[SHARED_OUTPUT_Y_ELEMENTS];
static float found[SHARED_OUTPUT_Y_ELEMENTS];

static int run(const shared_pool *pool, float *y)
{
    shared_instance instance;
    const shared_input input = {x, sizeof x};
    const shared_output output = {y, SHARED_OUTPUT_Y_BYTES};
    memset(arena, 0xFF, sizeof arena);
    return shared_init(&instance, arena, sizeof arena, pool) == SHARED_OK &&
           shared_run(&instance, &input, &output) == SHARED_OK;
}

static void count(void *calls, size_t index, size_t thread)
{
    (void)thread;
    ((unsigned *)calls)[index]++;
}

/* Many short regions behind each other, of other tasks and other data each. */
static int calls_each_task_once(const shared_pool *pool)
{
    for (size_t region = 0; region < REGIONS; region++) {
        unsigned calls[MOST_TASKS] = {0};
        size_t tasks = region % (MOST_TASKS + 1);
        pool->run(pool->state, tasks, count, calls);
        pool->wait(pool->state);
        for (size_t i = 0; i < MOST_TASKS; i++) {
            if (calls[i] != (i < tasks)) {
                printf("task %lu of %lu was called %u times\n", (unsigned long)i, (unsigned long)tasks, calls[i]);
                return 0;
            }
        }
    }
    return 1;
}

int main(void)
{
    for (size_t i = 0; i < SHARED_INPUT_X_ELEMENTS; i++) {
        x[i] = (float)(i % 31) / 31 - (float)(i % 7) / 7;
    }
    if (!run(NULL, expected)) {
        return 1;
    }
    static shared_threads threads;
    for (size_t number = 1; number <= SHARED_THREADS; number *= 2) {
        if (shared_pool_create(&threads, number) != 0 || threads.pool.threads != number) {
            return 2;
        }
        for (int round = 0; round < ROUNDS; round++) {
            memset(found, 0, sizeof found);
            if (!run(&threads.pool, found) || memcmp(found, expected, sizeof found) != 0) {
                printf("%lu threads differ\n", (unsigned long)number);
                return 3;
            }
        }
        if (!calls_each_task_once(&threads.pool)) {
            return 5;
        }
        shared_pool_destroy(&threads);
    }
    shared_instance instance;
    shared_pool none = {0, NULL, NULL, NULL};
    shared_pool many = threads.pool;
    many.threads = SHARED_THREADS + 1;
    if (shared_init(&instance, arena, sizeof arena, &none) != SHARED_ERROR_THREADS ||
        shared_init(&instance, arena, sizeof arena, &many) != SHARED_ERROR_THREADS ||
        shared_pool_create(&threads, 0) != EINVAL || shared_pool_create(&threads, SHARED_THREADS + 1) != EINVAL) {
        return 4;
    }
    return 0;
}
