
    /// Computes the outputs, and keeps the states for the next call, as @name@_step does.
    Status step(@hpp_step@) noexcept
    {
        if (status_ != @NAME@_OK) {
            return status_;
        }
@hpp_shape_check@        const @name@_input inputs[@NAME@_STEP_INPUTS + 1] = {@hpp_step_inputs@};
        const @name@_output outputs[@NAME@_STEP_OUTPUTS + 1] = {@hpp_step_outputs@};
        return @name@_step(&instance_, @shape_pass@inputs, outputs);
    }

    /// Sets the states to their initial values.
    Status reset() noexcept { return status_ == @NAME@_OK ? @name@_reset(&instance_) : status_; }
