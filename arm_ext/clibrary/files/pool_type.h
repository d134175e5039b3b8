/* Threads that share a kernel's iterations, of whatever system; @name@_pool.h is one of POSIX threads. */
#define @NAME@_THREADS @threads@ /* at most */

typedef void @name@_task(void *context, size_t index, size_t thread);

typedef struct @name@_pool {
    size_t threads; /* the calling one among them */
    void *state;    /* what both functions get */
    /* Begins to call task(context, i, t) for each i below `tasks`, t being the number of the thread that calls. */
    void (*run)(void *state, size_t tasks, @name@_task *task, void *context);
    /* Returns when all calls have returned; the calling thread may do some of them here. */
    void (*wait)(void *state);
} @name@_pool;

