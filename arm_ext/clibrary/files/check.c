/* Runs the self-tests of all models of lib@name@.a; ends with 0 if all agree. */
@declarations@
int main(void)
{
    int wrong = 0;
@calls@    return wrong != 0;
}
