    if (pool != NULL &&
        (pool->run == NULL || pool->wait == NULL || pool->threads == 0 || pool->threads > @NAME@_THREADS)) {
        return @NAME@_ERROR_THREADS;
    }
