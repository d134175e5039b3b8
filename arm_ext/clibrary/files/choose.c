static @name@_status compute(size_t shape, unsigned char *const *memory, const unsigned char *weights,
                             const @name@_input *in, const @name@_output *out@helper_parameter@)
{
    switch (shape) {
@cases@    default:
        return @NAME@_ERROR_SHAPE;
    }
}

