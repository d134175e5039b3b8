/* SPDX-License-Identifier: Apache-2.0
 * Two models in one program, two instances of each in threads of their own: all give what one by itself gives. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cnn.h"
#include "digits_int8.h"

enum { ROUNDS = 50 };

#define MODEL(name, NAME)                                                                                              \
    static void *run_##name(void *result)                                                                              \
    {                                                                                                                  \
        static _Thread_local _Alignas(64) unsigned char arena[NAME##_ARENA_BYTES];                                     \
        static _Thread_local _Alignas(64) unsigned char data[1 << 16];                                                 \
        name##_instance instance;                                                                                      \
        name##_input inputs[NAME##_INPUTS];                                                                            \
        name##_output outputs[NAME##_OUTPUTS];                                                                         \
        size_t at = 0;                                                                                                 \
        for (size_t i = 0; i < NAME##_INPUTS; i++) {                                                                   \
            inputs[i].data = data + at, inputs[i].bytes = name##_input_tensor(i)->bytes;                               \
            for (size_t k = 0; k < inputs[i].bytes / sizeof(float); k++) {                                             \
                ((float *)(void *)(data + at))[k] = (float)(k % 17) / 17;                                              \
            }                                                                                                          \
            at += (inputs[i].bytes + 63) / 64 * 64;                                                                    \
        }                                                                                                              \
        size_t begin = at;                                                                                             \
        for (size_t i = 0; i < NAME##_OUTPUTS; i++) {                                                                  \
            outputs[i].data = data + at, outputs[i].bytes = name##_output_tensor(i)->bytes;                            \
            at += (outputs[i].bytes + 63) / 64 * 64;                                                                   \
        }                                                                                                              \
        if (name##_init(&instance, arena, sizeof arena) != NAME##_OK) {                                                \
            return NULL;                                                                                               \
        }                                                                                                              \
        for (int round = 0; round < ROUNDS; round++) {                                                                 \
            memset(data + begin, 0, at - begin);                                                                       \
            if (name##_run(&instance, inputs, outputs) != NAME##_OK) {                                                 \
                return NULL;                                                                                           \
            }                                                                                                          \
            if (round != 0 && memcmp(result, data + begin, at - begin) != 0) {                                         \
                return NULL;                                                                                           \
            }                                                                                                          \
            memcpy(result, data + begin, at - begin);                                                                  \
        }                                                                                                              \
        return result;                                                                                                 \
    }

MODEL(digits_int8, DIGITS_INT8)
MODEL(cnn, CNN)

int main(void)
{
    static unsigned char results[6][4096];
    void *(*const runs[6])(void *) = {run_digits_int8, run_cnn, run_digits_int8, run_cnn, run_digits_int8, run_cnn};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, runs[i], results[i]) != 0) {
            return 2;
        }
    }
    for (int i = 0; i < 4; i++) {
        void *result;
        if (pthread_join(threads[i], &result) != 0 || result == NULL) {
            return 3;
        }
    }
    for (int i = 4; i < 6; i++) {
        if (runs[i](results[i]) == NULL || memcmp(results[i], results[i - 2], sizeof results[i]) != 0 ||
            memcmp(results[i], results[i - 4], sizeof results[i]) != 0) {
            printf("thread %d differs\n", i);
            return 1;
        }
    }
    return 0;
}
