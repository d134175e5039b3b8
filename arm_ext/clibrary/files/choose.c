static @name@_status compute(size_t shape, @name@_instance *instance, const @name@_input *in, const @name@_output *out)
{
    switch (shape) {
@cases@    default:
        return @NAME@_ERROR_SHAPE;
    }
}

