    for (int run = 0; run < @step_runs@; run++) {
        status = @name@_step(&instance, inputs, outputs);
        if (status != @NAME@_OK) {
            printf("@name@: %s\n", @name@_strerror(status));
            return 2;
        }
        for (size_t i = 0; i < @NAME@_STEP_OUTPUTS; i++) {
            wrong += !agrees(@name@_output_tensor(i), outputs[i].data, data);
            data += padded(outputs[i].bytes);
        }
    }
