/* MPI_Allreduce or MPI_Allgather, timed as nezha_tools.bench.measure times Nezha: warm up, barrier,
 * operations back to back, maximum over ranks of the whole loop and per operation, then checked
 * operations on fresh random data.
 *
 *   mpi_driver COLLECTIVE DTYPE SECONDS ITERATIONS WARMUP CHECKS IN_PLACE DEVICES SIZE...
 *
 * COLLECTIVE all_reduce or all_gather, whose SIZE is that of all blocks and which is never in place;
 * DTYPE float32, float64 or int32; ITERATIONS and WARMUP 0 = chosen; DEVICES comma separated, or "-".
 * Rank 0 prints one "@sample {json}" line a size. Any error ends the job with a sentence. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { kMaxDevices = 16, kMaxOperations = 2000, kMinOperations = 5, kWarmup = 5, kValues = 127 };

typedef struct {
  MPI_Datatype type;
  size_t item;
  double seconds;
  int iterations, warmup, checks, in_place, rank, ranks, devices, counts_devices;
  int gathers; /* all_gather */
  char device[kMaxDevices][16];
  char name[16];
  void *in, *out;
} Bench;

static void die(const char* what) {
  fprintf(stderr, "mpi_driver: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Bytes sent so far by each device; -1 where the device is not there. */
static void sent_bytes(const Bench* b, double* sent) {
  char line[512];
  FILE* f = fopen("/proc/self/net/dev", "r");
  for (int d = 0; d < b->devices; ++d) sent[d] = -1;
  while (f && fgets(line, sizeof line, f)) {
    char name[32];
    unsigned long long tx;
    char* colon = strchr(line, ':');
    if (!colon) continue;
    *colon = ' ';
    if (sscanf(line, "%31s %*s %*s %*s %*s %*s %*s %*s %*s %llu", name, &tx) != 2) continue;
    for (int d = 0; d < b->devices; ++d)
      if (!strcmp(name, b->device[d])) sent[d] = (double)tx;
  }
  if (f) fclose(f);
}

/* A whole number in -127 .. 127 that depends on rank and index only: sums never round. */
static int value(int rank, size_t index) {
  uint64_t x = (uint64_t)index * 0x9E3779B97F4A7C15u + (uint64_t)(rank + 1) * 0xD1B54A32D192ED03u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  x ^= x >> 29;
  return (int)(x % (2 * kValues + 1)) - kValues;
}

static void store(const Bench* b, void* at, size_t i, double v) {
  if (b->type == MPI_FLOAT) ((float*)at)[i] = (float)v;
  if (b->type == MPI_DOUBLE) ((double*)at)[i] = v;
  if (b->type == MPI_INT) ((int*)at)[i] = (int)v;
}

static double load(const Bench* b, const void* at, size_t i) {
  if (b->type == MPI_FLOAT) return ((const float*)at)[i];
  if (b->type == MPI_DOUBLE) return ((const double*)at)[i];
  return ((const int*)at)[i];
}

static void refill(Bench* b, size_t count) {
  for (size_t i = 0; i < count; ++i) store(b, b->in, i, value(b->rank, i));
}

static void call(Bench* b, size_t count) {
  if (b->gathers) {
    int block = (int)(count / (size_t)b->ranks);
    MPI_Allgather(b->in, block, b->type, b->out, block, b->type, MPI_COMM_WORLD);
    return;
  }
  MPI_Allreduce(b->in_place ? MPI_IN_PLACE : b->in, b->in_place ? b->in : b->out, (int)count,
                b->type, MPI_SUM, MPI_COMM_WORLD);
}

static int expected(const Bench* b, size_t i, size_t count) {
  size_t block = count / (size_t)b->ranks;
  int sum = 0;
  if (b->gathers) return value((int)(i / block), i % block);
  for (int r = 0; r < b->ranks; ++r) sum += value(r, i);
  return sum;
}

static double wrong(Bench* b, size_t count) {
  const void* result = b->in_place ? b->in : b->out;
  double bad = 0;
  for (size_t i = 0; i < count; ++i) bad += load(b, result, i) != (double)expected(b, i, count);
  return bad;
}

/* Seconds of `n` operations on the slowest rank. */
static double slowest(Bench* b, size_t count, int n) {
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = now();
  for (int i = 0; i < n; ++i) call(b, count);
  seconds = now() - seconds;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

/* Growing batches; returns how many operations to time, equal on every rank. */
static int warm_up(Bench* b, size_t count) {
  int batch = b->warmup ? b->warmup : 1, total = 0;
  double spent = 0, seconds;
  for (;; batch *= 4) {
    seconds = slowest(b, count, batch);
    total += batch;
    spent += seconds;
    if (b->warmup || spent >= 1.0 || batch >= kMaxOperations) break;
    if (seconds >= 0.1 && total >= kWarmup) break;
  }
  if (b->iterations) return b->iterations;
  double wanted = b->seconds * batch / seconds + 1;
  if (wanted > kMaxOperations) return kMaxOperations;
  return wanted < kMinOperations ? kMinOperations : (int)wanted;
}

static void report(const Bench* b, size_t count, int n, const double* times, double mean, double bad,
                   double cpu, const double* sent) {
  printf("@sample {\"size\": %zu, \"count\": %zu, \"ranks\": %d, \"wrong\": %.0f, \"cpu_s\": %.6f, "
         "\"mean_us\": %.3f, \"times_us\": [", count * b->item, count, b->ranks, bad, cpu, 1e6 * mean);
  for (int i = 0; i < n; ++i) printf("%s%.3f", i ? ", " : "", 1e6 * times[i]);
  printf("], \"rails\": [");
  for (int d = 0; d < b->devices; ++d)
    printf("%s{\"name\": \"%s\", \"device\": \"%s\", \"bytes\": %.0f}", d ? ", " : "",
           b->device[d], b->device[d], sent[d]);
  printf("]}\n");
  fflush(stdout);
}

static void measure(Bench* b, size_t size) {
  size_t count = size / b->item;
  if (b->gathers) count -= count % (size_t)b->ranks;
  if (count == 0) die("the size has no element for every rank");
  b->in = malloc(size);
  b->out = malloc(size);
  if (!b->in || !b->out) die("out of memory");
  refill(b, count);
  int n = warm_up(b, count);
  double* times = calloc((size_t)n, sizeof *times);
  if (!times) die("out of memory");
  double before[kMaxDevices], after[kMaxDevices], bad = 0;
  sent_bytes(b, before);
  double cpu = cpu_seconds();
  MPI_Barrier(MPI_COMM_WORLD);
  double first = now(), last = first;
  for (int i = 0; i < n; ++i) {
    call(b, count);
    double t = now();
    times[i] = t - last;
    last = t;
  }
  double mean = (last - first) / n;
  cpu = cpu_seconds() - cpu;
  sent_bytes(b, after);
  for (int d = 0; d < b->devices; ++d) after[d] = b->counts_devices ? after[d] - before[d] : 0;
  for (int i = 0; i < b->checks; ++i) {
    refill(b, count);
    memset(b->out, 0xA5, size);
    call(b, count);
    bad += wrong(b, count);
  }
  MPI_Allreduce(MPI_IN_PLACE, times, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &mean, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, after, b->devices, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (b->rank == 0) report(b, count, n, times, mean, bad, cpu, after);
  free(times);
  free(b->in);
  free(b->out);
}

static void set_type(Bench* b, const char* name) {
  b->type = !strcmp(name, "float64") ? MPI_DOUBLE : !strcmp(name, "int32") ? MPI_INT : MPI_FLOAT;
  if (b->type == MPI_FLOAT && strcmp(name, "float32")) die("dtype: float32, float64 or int32");
  b->item = b->type == MPI_DOUBLE ? 8 : 4;
}

static void set_devices(Bench* b, char* list) {
  if (!strcmp(list, "-")) return;
  for (char* d = strtok(list, ","); d && b->devices < kMaxDevices; d = strtok(NULL, ","))
    snprintf(b->device[b->devices++], sizeof b->device[0], "%s", d);
}

/* The devices are the node's: one of its ranks counts what they sent. */
static int first_of_node(int rank) {
  MPI_Comm node;
  int here;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &here);
  MPI_Comm_free(&node);
  return here == 0;
}

int main(int argc, char** argv) {
  Bench b = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
  b.counts_devices = first_of_node(b.rank);
  if (argc < 10) die("usage: see the first lines of mpi_driver.c");
  b.gathers = !strcmp(argv[1], "all_gather");
  set_type(&b, argv[2]);
  b.seconds = atof(argv[3]);
  b.iterations = atoi(argv[4]);
  b.warmup = atoi(argv[5]);
  b.checks = atoi(argv[6]);
  b.in_place = atoi(argv[7]) && !b.gathers;
  set_devices(&b, argv[8]);
  for (int i = 9; i < argc; ++i) measure(&b, (size_t)strtoull(argv[i], NULL, 10));
  MPI_Finalize();
  return 0;
}
