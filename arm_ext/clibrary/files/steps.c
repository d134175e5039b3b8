    (void)@name@_reset(instance);
    for (int run = 0; run < @step_runs@; run++) {
        status = @name@_step(instance, @shape_pass@inputs, outputs);
        if (status != @NAME@_OK) {
            printf("@name@: %s\n", @name@_strerror(status));
            return 1;
        }
        for (size_t i = 0; i < @NAME@_STEP_OUTPUTS; i++) {
            wrong += !agrees(@name@_output_tensor(@shape_pass@i@tensor_pass@), outputs[i].data, *data);
            *data += padded(outputs[i].bytes);
        }
    }
