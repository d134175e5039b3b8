/* The model, between fixed places in memory, the weights, inputs and outputs. */
static @name@_status compute@suffix@(@compute_parameter@unsigned char *const *memory, const unsigned char *weights,
                             const @name@_input *in, const @name@_output *out@helper_parameter@)
{
@failed@@helper_used@@length_used@@memory@    (void)weights;
    (void)in;
    (void)out;
@steps@    return @NAME@_OK;
}

