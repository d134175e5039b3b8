
/* The same with the states kept in the arena: without the last @STATES@ inputs and outputs, which are the states.
 * A model that has no other outputs gives its next states. */
#define @NAME@_STATES @states_count@
#define @NAME@_STEP_INPUTS @step_inputs@
#define @NAME@_STEP_OUTPUTS @step_outputs@
@name@_status @name@_step(@name@_instance *instance, @shape_parameter@const @name@_input *inputs, const @name@_output *outputs);

/* Sets the states to those that the first step after @name@_init begins with. */
@name@_status @name@_reset(@name@_instance *instance);
