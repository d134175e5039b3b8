<# SPDX-License-Identifier: Apache-2.0 #>
# find_package(@name@ CONFIG PATHS this/folder) gives the target @name@::@name@.
if(NOT TARGET @name@::@name@)
  add_library(@name@::@name@ STATIC IMPORTED)
  set_target_properties(@name@::@name@ PROPERTIES
    IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/lib@name@.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/include"
    INTERFACE_LINK_LIBRARIES "<% if has_math %>m<% endif %>")
endif()
<% if on_npu %>

if(NOT TARGET @name@::npu_linux)
  add_library(@name@::npu_linux STATIC IMPORTED)
  set_target_properties(@name@::npu_linux PROPERTIES
    IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/lib@name@_npu_linux.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/include"
    INTERFACE_LINK_LIBRARIES "pthread")
endif()
<% endif %>
