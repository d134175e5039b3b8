<# SPDX-License-Identifier: Apache-2.0 #>
/* Runs the self-tests of all models of lib@name@.a; ends with 0 if all agree. */
<% for model in models %>
int @model.name@_check(void);
<% endfor %>

int main(void)
{
    int wrong = 0;
<% for model in models %>
    wrong += @model.name@_check();
<% endfor %>
    return wrong != 0;
}
