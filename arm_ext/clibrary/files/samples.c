/* Computes samples one by one. */
static @name@_status compute_samples(size_t samples, @name@_instance *instance, const @name@_input *in,
                                     const @name@_output *out)
{
    static const unsigned char has_samples[@NAME@_INPUTS + 1] = {@has_samples@};
    @name@_input one_in[@NAME@_INPUTS + 1];
    @name@_output one_out[@NAME@_OUTPUTS + 1];
    for (size_t sample = 0; sample < samples; sample++) {
        for (size_t i = 0; i < @NAME@_INPUTS; i++) {
            one_in[i].bytes = input_needs[0][i].bytes;
            one_in[i].data = (const unsigned char *)in[i].data + (has_samples[i] ? sample * one_in[i].bytes : 0);
        }
        for (size_t i = 0; i < @NAME@_OUTPUTS; i++) {
            one_out[i].bytes = output_needs[0][i].bytes;
            one_out[i].data = (unsigned char *)out[i].data + sample * one_out[i].bytes;
        }
        @name@_status status = compute(instance, one_in, one_out);
        if (status != @NAME@_OK) {
            return status;
        }
    }
    return @NAME@_OK;
}

