/* What an instance has the number of, from 1. */
static const char *const failures[] = {
@failure_rows@};

const char *@name@_failure(const @name@_instance *instance)
{
    const size_t count = sizeof failures / sizeof *failures;
    return instance != NULL && instance->failure - 1 < count ? failures[instance->failure - 1] : NULL;
}

