    if (weights == NULL) {
        return @NAME@_ERROR_NULL;
    }
    if ((uintptr_t)weights % @NAME@_ARENA_ALIGNMENT != 0) {
        return @NAME@_ERROR_ALIGNMENT;
    }
    if (overlap(weights, weights_bytes, instance, sizeof *instance)) {
        return @NAME@_ERROR_OVERLAP;
    }
    for (size_t i = 0; i < @NAME@_REGIONS; i++) {
        if (overlap(weights, weights_bytes, memory[i], bytes[i])) {
            return @NAME@_ERROR_OVERLAP;
        }
    }
    if (weights_bytes != @NAME@_WEIGHTS_BYTES || checksum(weights, weights_bytes) != UINT32_C(@weights_crc@)) {
        return @NAME@_ERROR_WEIGHTS;
    }
