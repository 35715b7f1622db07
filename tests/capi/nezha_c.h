/* A C program over nezha.h, called by the tests. */
#ifndef NEZHA_TESTS_CAPI_NEZHA_C_H
#define NEZHA_TESTS_CAPI_NEZHA_C_H

#ifdef __cplusplus
extern "C" {
#endif

const char* run_c_program(const char* key_file);

#ifdef __cplusplus
}
#endif
#endif
