# Writes one test for each suite of a gtest program that FILTER selects, for suites whose cases take less than
# their process does to start.
#
#   cmake -D PROGRAM=... -D PREFIX=... -D FILTER=... -D FOLDER=... -D PROPERTIES=... -D OUTPUT=... -P suites.cmake
execute_process(COMMAND ${PROGRAM} --gtest_list_tests --gtest_filter=${FILTER} WORKING_DIRECTORY ${FOLDER}
                OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n[^ \n]+\\." suites "\n${listed}")
if(NOT suites)
  message(FATAL_ERROR "${PROGRAM} has no suite that ${FILTER} selects")
endif()
set(tests)
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "\n(.*)\\." "\\1" suite "${suite}")
  string(APPEND tests "add_test([=[${PREFIX}.${suite}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${suite}.*]=])\n"
                      "set_tests_properties([=[${PREFIX}.${suite}]=] PROPERTIES ${PROPERTIES})\n")
endforeach()
file(WRITE ${OUTPUT} "${tests}")
