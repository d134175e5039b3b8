
/* The last @states_count@ inputs and outputs are states, of which an instance keeps the current values in its arena. */
/** Number of states. */
#define @NAME@_STATES @states_count@
/** Number of inputs without the states. */
#define @NAME@_STEP_INPUTS @step_inputs@
/** Number of outputs without the states; if the model has no others, that of the states, whose next values they are. */
#define @NAME@_STEP_OUTPUTS @step_outputs@

/** Computes the outputs from the inputs and the states, and replaces the states. As @name@_run, with
 * @NAME@_STEP_INPUTS inputs and @NAME@_STEP_OUTPUTS outputs. If the call fails, the states are as before. */
@name@_status @name@_step(
    @name@_instance *instance, @shape_parameter@const @name@_input *inputs, const @name@_output *outputs);

/** Sets the states to their initial values, which they also have after @name@_init. */
@name@_status @name@_reset(@name@_instance *instance);
