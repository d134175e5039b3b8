static size_t @kind@_size(int64_t length, size_t index, size_t axis)
{
    (void)length; /* all sizes may be fixed */
    switch (index * @NAME@_DIMENSIONS + axis) {
@open_cases@    default:
        return @kind@s[index].shape[axis];
    }
}

const @name@_tensor *@name@_@kind@_tensor(size_t @open@, size_t index, @name@_tensor *tensor)
{
    if (@open_wrong@ || index >= @NAME@_@KIND@S || tensor == NULL) {
        return NULL;
    }
    const @name@_tensor *largest = &@kind@s[index];
    tensor->name = largest->name;
    tensor->type = largest->type;
    tensor->dimensions = largest->dimensions;
    tensor->scale = largest->scale;
    tensor->zero_point = largest->zero_point;
    tensor->elements = 1;
    for (size_t i = 0; i < @NAME@_DIMENSIONS; i++) {
        tensor->shape[i] = @kind@_size((int64_t)@open@, index, i);
        tensor->elements *= i < tensor->dimensions ? tensor->shape[i] : 1;
    }
    tensor->bytes = largest->elements == 0 ? 0 : tensor->elements * (largest->bytes / largest->elements);
    return tensor;
}

