/* What a task gets. */
typedef struct part {
    unsigned char *const *memory;
    const unsigned char *weights;
    const @name@_input *in;
    const @name@_output *out;
@part_length@} part;

static void share(const @name@_pool *pool, size_t tasks, @name@_task *task, part *context)
{
    if (pool != NULL) {
        pool->run(pool->state, tasks, task, context);
        pool->wait(pool->state);
        return;
    }
    for (size_t i = 0; i < tasks; i++) {
        task(context, i, 0);
    }
}

