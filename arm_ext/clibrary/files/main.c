<# SPDX-License-Identifier: Apache-2.0 #>
<% from "macros.c" import size_parameter, size_pass with context %>
<% set tensor_pass = ", &tensor" if open else "" %>
/* Runs @name@ on the inputs of the self-test, and compares its outputs with those that arm-ext computed.
 * Ends with 0 if they agree. |difference| / max |expected| of floats may be @bound@, and the share of integers that
 * differ @differing@: @reason@. */
#include <stdio.h>

#include "@name@.h"
<% if has_pool %>
#include "@name@_pool.h"
<% endif %>
<% if has_driver %>
#ifdef @NAME@_ON_NPU
#include "@name@_npu_linux.h"
#endif
<% endif %>

#define BOUND @bound@
#define DIFFERING @differing@

/* Inputs, then outputs<% if states %>, then those of the first steps<% endif %>, each from a multiple of 64 bytes. */
extern const unsigned char @name@_selftest[];
<% if weights_in_file %>
extern const unsigned char @archive@_weights_file[];
<% endif %>

<% for region in regions %>
static _Alignas(@alignment@) unsigned char @region.name@[@NAME@_@region.name | upper@_BYTES];
<% endfor %>
static _Alignas(64) unsigned char results[@result_bytes@];

static size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

static double half(const unsigned char *from)
{
    unsigned bits = from[0] | (unsigned)from[1] << 8;
    int exponent = (int)(bits >> 10 & 31);
    double value = exponent == 0 ? (bits & 1023) / 1024.0 : 1 + (bits & 1023) / 1024.0;
    for (int power = exponent == 0 ? 1 : exponent; power != 15; power += power < 15 ? 1 : -1) {
        value = power < 15 ? value / 2 : value * 2;
    }
    return bits >> 15 ? -value : value;
}

static double element(const @name@_tensor *tensor, const unsigned char *data, size_t index)
{
    switch (tensor->type) {
    case @NAME@_FLOAT16:
        return half(data + 2 * index);
    case @NAME@_FLOAT32:
        return ((const float *)(const void *)data)[index];
    default:
        return ((const double *)(const void *)data)[index];
    }
}

static double absolute(double value) { return value < 0 ? -value : value; }

/* Whether an output is as expected. */
static int agrees(const @name@_tensor *tensor, const unsigned char *found, const unsigned char *expected)
{
    if (tensor->type < @NAME@_FLOAT16 || BOUND == 0) {
        size_t size = tensor->bytes > tensor->elements ? tensor->bytes / tensor->elements : 1;
        size_t first = 0;
        size_t differing = 0;
        for (size_t i = 0; i + size <= tensor->bytes; i += size) {
            size_t at = i;
            while (at < i + size && found[at] == expected[at]) {
                at++;
            }
            if (at < i + size && differing++ == 0) {
                first = at;
            }
        }
        if (differing <= DIFFERING * tensor->elements) {
            return 1;
        }
        printf("%s: byte %lu is %d, not %d\n", tensor->name, (unsigned long)first, found[first], expected[first]);
        return 0;
    }
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < tensor->elements; i++) {
        double a = element(tensor, found, i);
        double b = element(tensor, expected, i);
        if (a == b || (a != a && b != b)) {
            a = b = b == b && b - b == 0 ? b : 0; /* infinities and NaNs that agree */
        }
        largest = absolute(b) > largest ? absolute(b) : largest;
        if (!(absolute(a - b) <= difference)) {
            difference = absolute(a - b);
        }
    }
    if (difference <= BOUND * largest) {
        return 1;
    }
    printf("%s: off by %g, with values up to %g\n", tensor->name, difference, largest);
    return 0;
}

/* Runs on the inputs at `data`, and returns how many outputs are not as expected; moves `data` behind both. */
static int selftest(@name@_instance *instance, @size_parameter@const unsigned char **data)
{
    @name@_input inputs[@NAME@_INPUTS + 1];
    @name@_output outputs[@NAME@_OUTPUTS + 1];
<% if open %>
    @name@_tensor tensor;
<% endif %>
    unsigned char *result = results;
    int wrong = 0;
    for (size_t i = 0; i < @NAME@_INPUTS; i++) {
        inputs[i].data = *data;
        inputs[i].bytes = @name@_input_tensor(@size_pass@i@tensor_pass@)->bytes;
        *data += padded(inputs[i].bytes);
    }
    for (size_t i = 0; i < @NAME@_OUTPUTS; i++) {
        outputs[i].data = result;
        outputs[i].bytes = @name@_output_tensor(@size_pass@i@tensor_pass@)->bytes;
        result += padded(outputs[i].bytes);
    }
    @name@_status status = @name@_run(instance, @size_pass@inputs, outputs);
    if (status != @NAME@_OK) {
        const char *why = @name@_failure(instance);
        printf("@name@: %s\n", why != NULL ? why : @name@_strerror(status));
        return 1;
    }
    for (size_t i = 0; i < @NAME@_OUTPUTS; i++) {
        wrong += !agrees(@name@_output_tensor(@size_pass@i@tensor_pass@), outputs[i].data, *data);
        *data += padded(outputs[i].bytes);
    }
<% if states %>
    (void)@name@_reset(instance);
    for (int run = 0; run < @step_runs@; run++) {
        status = @name@_step(instance, @size_pass@inputs, outputs);
        if (status != @NAME@_OK) {
            printf("@name@: %s\n", @name@_strerror(status));
            return 1;
        }
        for (size_t i = 0; i < @NAME@_STEP_OUTPUTS; i++) {
            wrong += !agrees(@name@_output_tensor(@size_pass@i@tensor_pass@), outputs[i].data, *data);
            *data += padded(outputs[i].bytes);
        }
    }
<% endif %>
    return wrong;
}

<% if group %>
int @name@_check(void);

int @name@_check(void)
<% else %>
int main(void)
<% endif %>
{
    const unsigned char *data = @name@_selftest;
    @name@_instance instance;
<% if has_pool %>
    static @name@_threads threads;
    if (@name@_pool_create(&threads, @NAME@_THREADS) != 0) {
        return 3;
    }
<% endif %>
<% if has_driver %>
#ifdef @NAME@_ON_NPU
    const @name@_npu *npu = &@name@_npu_linux;
#else
    const @name@_npu *npu = NULL;
#endif
<% elif npu %>
    const @name@_npu *npu = NULL;
<% endif %>
    @name@_status status = @name@_init(&instance
<%- for region in regions %>, @region.name@, sizeof @region.name@<% endfor %>
<% if weights_in_file %>, @archive@_weights_file, @NAME@_WEIGHTS_BYTES<% endif %>
<% if has_pool %>, &threads.pool<% endif %>
<% if npu %>, npu<% endif %>);
    if (status != @NAME@_OK) {
        printf("@name@: %s\n", @name@_strerror(status));
        return 2;
    }
    int wrong = 0;
<% if size == "shape" %>
    for (size_t shape = 0; shape < @NAME@_SHAPES; shape++) {
        wrong += selftest(&instance, shape, &data);
    }
<% elif size %>
    wrong += selftest(&instance, @open.tested@, &data);
<% else %>
    wrong += selftest(&instance, &data);
<% endif %>
<% if has_pool %>
    @name@_pool_destroy(&threads);
<% endif %>
    if (wrong == 0) {
        printf("@name@: all outputs agree\n");
    }
    return wrong != 0;
}
