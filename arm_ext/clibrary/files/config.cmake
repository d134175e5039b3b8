# find_package(@name@ CONFIG PATHS this/folder) gives the target @name@::@name@.
if(NOT TARGET @name@::@name@)
  add_library(@name@::@name@ STATIC IMPORTED)
  set_target_properties(@name@::@name@ PROPERTIES
    IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/lib@name@.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/include"
    INTERFACE_LINK_LIBRARIES "@libraries@")
endif()
@npu_targets@