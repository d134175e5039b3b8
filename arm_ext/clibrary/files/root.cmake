<# SPDX-License-Identifier: Apache-2.0 #>
# add_subdirectory(this/folder) gives the target @name@::@name@. As a module of Zephyr (ZEPHYR_EXTRA_MODULES), the folder
# gives it to the application, which then needs no more than #include "@includes[0]@".
include("${CMAKE_CURRENT_LIST_DIR}/@name@Config.cmake")
set_target_properties(@name@::@name@ PROPERTIES IMPORTED_GLOBAL TRUE)
if(COMMAND zephyr_link_libraries)
  zephyr_include_directories("${CMAKE_CURRENT_LIST_DIR}/include")
  zephyr_link_libraries(@name@::@name@)
endif()
