    if (npu != NULL && npu->run == NULL) {
        return @NAME@_ERROR_NULL;
    }
