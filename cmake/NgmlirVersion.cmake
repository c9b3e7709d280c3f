# SPDX-License-Identifier: Apache-2.0
# ngmlir_version(VARIABLE): the version that pyproject.toml states.

function(ngmlir_version variable)
  file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/pyproject.toml" lines REGEX "^version = \"[^\"]+\"$")
  list(LENGTH lines count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "pyproject.toml: expected one line version = \"...\", found ${count}")
  endif()
  string(REGEX REPLACE "^version = \"([^\"]+)\"$" "\\1" version "${lines}")
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()
