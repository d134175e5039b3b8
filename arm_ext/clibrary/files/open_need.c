/* What a buffer has to be for a length. */
static need @kind@_need(int64_t length, size_t index)
{
    (void)length; /* all sizes may be fixed */
    need found = @kind@_needs[0][index];
    switch (index) {
@open_cases@    default:
        break;
    }
    return found;
}

