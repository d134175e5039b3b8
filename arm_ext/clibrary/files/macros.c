<# SPDX-License-Identifier: Apache-2.0 #>
<# Parts of C that several templates have. `size` is the argument by which a caller chooses the sizes of inputs and
outputs: "shape", "length" or "samples"; it is empty if there is one shape of fixed sizes. #>
<% set size_parameter = "size_t " ~ size ~ ", " if size else "" %>
<% set size_pass = size ~ ", " if size else "" %>
<% set shape_parameter = "size_t shape, " if size == "shape" else "" %>
<# The condition under which a length or a number of samples is refused. #>
<% macro out_of_bounds() -%>
<% if size == "length" %>length < @NAME@_LENGTH_MIN || length > @NAME@_LENGTH_MAX<% else %>samples > @NAME@_SAMPLES_MAX<% endif %>
<%- endmacro %>
<# The parameters of init, one a line if they are too long for one line. #>
<% macro init_parameters() %>
<% set text -%>
    @name@_instance *instance
    <%- for region in regions %>, void *@region.name@, size_t @region.name@_bytes<% endfor %>
    <%- if weights_in_file %>, const void *weights, size_t weights_bytes<% endif %>
    <%- if has_pool %>, const @name@_pool *pool<% endif %>
    <%- if npu %>, const @name@_npu *npu<% endif %>
<% endset %>
@text if text | length <= 112 else text | replace(", ", ",\n    ")@
<%- endmacro %>
<% macro quotient() %>
/* The quotient, rounded down; `by` is positive. */
static int64_t quotient(int64_t value, int64_t by) { return value / by - (value % by < 0); }

<% endmacro %>
