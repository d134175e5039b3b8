const char *@name@_failure(const @name@_instance *instance)
{
    (void)instance; /* no kernel checks indices */
    return NULL;
}

