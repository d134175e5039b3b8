/* The model, between fixed places in memory, the weights, inputs and outputs. */
static @name@_status compute@suffix@(
    @compute_parameter@@name@_instance *instance, const @name@_input *in, const @name@_output *out)
{
    unsigned char *const *memory = instance->memory;
    const unsigned char *weights = instance->weights;
@failed@@helper_used@@length_used@@memory@    (void)weights;
    (void)in;
    (void)out;
@steps@    return @NAME@_OK;
}

