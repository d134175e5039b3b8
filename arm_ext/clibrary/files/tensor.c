const @name@_tensor *@name@_@kind@_tensor(@shape_parameter@size_t index)
{
@shape_check@    return shape < SHAPES && index < @NAME@_@KIND@S ? &@kind@s[shape * @NAME@_@KIND@S + index] : NULL;
}

