/* The quotient, rounded down; `by` is positive. */
static int64_t quotient(int64_t value, int64_t by) { return value / by - (value % by < 0); }

