
/* There are two places for each state: the current value, and the next one. */
#define PLACES ((size_t)@state_places@)
#define PLACE_BYTES ((size_t)@state_bytes@)

typedef struct state {
    size_t offset;
    size_t bytes;
    size_t initial; /* in the weights, from 1; 0 for zeros */
} state;

static const state states[@NAME@_STATES] = {
@state_table@};

static unsigned char *state_of(const @name@_instance *instance, size_t which, size_t index)
{
    return instance->memory[@state_region@] + PLACES + which * PLACE_BYTES + states[index].offset;
}

@name@_status @name@_reset(@name@_instance *instance)
{
    @name@_status status = check_instance(instance);
    if (status != @NAME@_OK) {
        return status;
    }
    for (size_t i = 0; i < @NAME@_STATES; i++) {
        unsigned char *place = state_of(instance, instance->state, i);
        if (states[i].initial != 0) {
            memcpy(place, instance->weights + states[i].initial - 1, states[i].bytes);
            continue;
        }
        for (size_t k = 0; k < states[i].bytes; k++) {
            place[k] = 0;
        }
    }
    return @NAME@_OK;
}

@name@_status @name@_step(
    @name@_instance *instance, @shape_parameter@const @name@_input *inputs, const @name@_output *outputs)
{
    @name@_input in[@NAME@_INPUTS];
    @name@_output out[@NAME@_OUTPUTS];
    @name@_output given[@NAME@_STEP_OUTPUTS];
@shape_check@    @name@_status status = begin(instance);
    if (status == @NAME@_OK) {
        status = shape < SHAPES ? find_tensors(instance, shape, inputs, @NAME@_STEP_INPUTS, in, outputs,
                                               @NAME@_STEP_OUTPUTS, given)
                                : @NAME@_ERROR_SHAPE;
    }
    if (status != @NAME@_OK) {
        return status;
    }
    size_t next = 1 - instance->state;
    for (size_t i = 0; i + @NAME@_STATES < @NAME@_OUTPUTS; i++) {
        out[i] = given[i];
    }
    for (size_t i = 0; i < @NAME@_STATES; i++) {
        @name@_input *before = &in[@NAME@_INPUTS - @NAME@_STATES + i];
        @name@_output *after = &out[@NAME@_OUTPUTS - @NAME@_STATES + i];
        before->data = state_of(instance, instance->state, i);
        after->data = state_of(instance, next, i);
        before->bytes = after->bytes = states[i].bytes;
    }
    status = compute(@shape_pass@instance, in, out);
    if (status != @NAME@_OK) {
        return status;
    }
    instance->state = next;
    if (@NAME@_OUTPUTS == @NAME@_STATES) {
        for (size_t i = 0; i < @NAME@_STATES; i++) {
            memcpy(given[i].data, out[i].data, states[i].bytes);
        }
    }
    return @NAME@_OK;
}
