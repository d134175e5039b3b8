        if (memory_ == nullptr) {
            status_ = @NAME@_ERROR_ARENA_BYTES;
            return;
        }
        const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(memory_.get());
        unsigned char *arena = memory_.get() + (@NAME@_ARENA_ALIGNMENT - begin % @NAME@_ARENA_ALIGNMENT);
