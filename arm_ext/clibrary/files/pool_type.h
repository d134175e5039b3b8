/** Largest number of threads of a pool. */
#define @NAME@_THREADS @threads@

/** Part of a kernel's work. */
typedef void @name@_task(void *context, size_t index, size_t thread);

/** Pool of threads that share the work of a kernel; @name@_pool.h has one of POSIX threads. */
typedef struct @name@_pool {
    size_t threads; /**< Number of threads, with the one that calls @name@_run. */
    void *state;    /**< Passed to both functions. */
    /** Starts calls of task(context, i, t) for each i below `tasks`, where t is the number of the calling thread. */
    void (*run)(void *state, size_t tasks, @name@_task *task, void *context);
    /** Returns when all these calls have returned; may make some of them itself. */
    void (*wait)(void *state);
} @name@_pool;

