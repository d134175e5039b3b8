/* SPDX-License-Identifier: Apache-2.0
 * The classifier for Java: an instance with its arena, whose image and logits Java reads and writes where they are. */
#include <jni.h>
#include <stdint.h>
#include <stdlib.h>

#include "digits_int8.h"

typedef struct model {
    _Alignas(64) unsigned char arena[DIGITS_INT8_ARENA_IN_PLACE_BYTES];
    digits_int8_instance instance;
} model;

static model *of(jlong handle) { return (model *)(uintptr_t)handle; }

/* Null where there is no memory. */
JNIEXPORT jlong JNICALL Java_org_armext_digits_Digits_create(JNIEnv *env, jclass type)
{
    (void)env;
    (void)type;
    void *made = NULL;
    if (posix_memalign(&made, _Alignof(model), sizeof(model)) != 0) {
        return 0;
    }
    model *self = made;
    if (digits_int8_init(&self->instance, self->arena, sizeof self->arena) != DIGITS_INT8_OK) {
        free(made);
        return 0;
    }
    return (jlong)(uintptr_t)made;
}

JNIEXPORT void JNICALL Java_org_armext_digits_Digits_destroy(JNIEnv *env, jclass type, jlong handle)
{
    (void)env;
    (void)type;
    free(of(handle));
}

JNIEXPORT jobject JNICALL Java_org_armext_digits_Digits_image(JNIEnv *env, jclass type, jlong handle)
{
    (void)type;
    void *place = digits_int8_input_place(&of(handle)->instance, DIGITS_INT8_INPUT_IMAGE);
    return (*env)->NewDirectByteBuffer(env, place, (jlong)DIGITS_INT8_INPUT_IMAGE_BYTES);
}

JNIEXPORT jobject JNICALL Java_org_armext_digits_Digits_logits(JNIEnv *env, jclass type, jlong handle)
{
    (void)type;
    void *place = digits_int8_output_place(&of(handle)->instance, DIGITS_INT8_OUTPUT_LOGITS);
    return (*env)->NewDirectByteBuffer(env, place, (jlong)DIGITS_INT8_OUTPUT_LOGITS_BYTES);
}

/* What went wrong, or null. */
JNIEXPORT jstring JNICALL Java_org_armext_digits_Digits_run(JNIEnv *env, jclass type, jlong handle)
{
    (void)type;
    digits_int8_status status = digits_int8_run(&of(handle)->instance, NULL, NULL);
    return status == DIGITS_INT8_OK ? NULL : (*env)->NewStringUTF(env, digits_int8_strerror(status));
}
