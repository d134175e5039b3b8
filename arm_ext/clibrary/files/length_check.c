    if (status == @NAME@_OK && (@open_wrong@)) {
        status = @NAME@_ERROR_LENGTH;
    }
