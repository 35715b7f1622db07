/* What an all_reduce costs a program in C: the call from Python is not in it.
 *
 *   nezha run -n 2 build/release/bench/from_c 4 1024 65536     (bytes of float32)
 *
 * Every rank calls in a loop; rank 0 prints, for each size, the bytes and the time of the loop divided by
 * its operations, in microseconds. A wrong sum ends it with 1, a failed call with 2, a bad size with 3.
 */
#include <nezha/nezha.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                             \
  do {                                                          \
    if ((call) != NEZHA_OK) {                                   \
      fprintf(stderr, "%s: %s\n", #call, nezha_last_error());   \
      exit(2);                                                  \
    }                                                           \
  } while (0)

static const char* from_launcher(const char* name, const char* otherwise) {
  const char* text = getenv(name);
  return text != NULL ? text : otherwise;
}

static nezha_comm_t join(void) {
  char store[256];
  nezha_init_options options = {.struct_size = sizeof options};
  options.rank = atoi(from_launcher("RANK", "0"));
  options.world_size = atoi(from_launcher("WORLD_SIZE", "1"));
  snprintf(store, sizeof store, "tcp://%s:%s", from_launcher("MASTER_ADDR", "127.0.0.1"),
           from_launcher("MASTER_PORT", "29500"));
  options.store = from_launcher("NEZHA_STORE", store);
  nezha_comm_t comm = NULL;
  CHECK(nezha_init(&options, &comm));
  return comm;
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Microseconds of one all_reduce: the mean of `operations`. */
static double mean_us(nezha_comm_t comm, const float* in, float* out, size_t count, int operations) {
  const double begin = now_us();
  for (int i = 0; i < operations; ++i) {
    CHECK(nezha_all_reduce(comm, in, out, count, NEZHA_FLOAT32, NEZHA_SUM, NULL, NULL));
  }
  return (now_us() - begin) / operations;
}

static void measure(nezha_comm_t comm, int rank, int ranks, size_t bytes) {
  const size_t count = bytes / sizeof(float);
  float* const in = malloc(bytes);
  float* const out = malloc(bytes);
  if (in == NULL || out == NULL) exit(2);
  for (size_t i = 0; i < count; ++i) in[i] = (float)(rank + 1 + i % 8);
  const int operations = bytes < 32768 ? 40000 : bytes < 4194304 ? 1000 : 20;
  mean_us(comm, in, out, count, operations / 4); /* warm-up */
  const double us = mean_us(comm, in, out, count, operations);
  for (size_t i = 0; i < count; ++i) {
    if (out[i] != (float)(ranks * (ranks + 1) / 2 + ranks * (int)(i % 8))) {
      fprintf(stderr, "rank %d: element %zu of %zu bytes is %g\n", rank, i, bytes, (double)out[i]);
      exit(1);
    }
  }
  if (rank == 0) printf("%zu %.2f\n", bytes, us);
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    if (bytes < 4 || bytes % 4 != 0) {
      fprintf(stderr, "from_c BYTES...: %s is no number of bytes that floats fill\n", argv[i]);
      return 3;
    }
  }
  nezha_comm_t comm = join();
  int rank = 0;
  int ranks = 0;
  CHECK(nezha_rank(comm, &rank));
  CHECK(nezha_world_size(comm, &ranks));
  for (int i = 1; i < argc; ++i) measure(comm, rank, ranks, (size_t)atol(argv[i]));
  nezha_destroy(comm);
  return 0;
}
