/* The C interface in one program: a sum over all ranks, the same in two halves, and a ring of messages.
 *
 *   cc allreduce.c $(pkg-config --cflags --libs nezha) -o allreduce
 *   nezha run -n 4 ./allreduce
 *
 * README.md beside this file has the CMake way, the way without installing, and other launchers. Every
 * call of Nezha returns a code; the sentence for a person is in nezha_last_error().
 */
#include <nezha/nezha.h>
#include <stdio.h>
#include <stdlib.h>

enum { kElements = 1 << 20 }; /* floats: 4 MB */

/* Runs one call; on failure says which and why, and leaves the enclosing function with its code. */
#define CHECK(call)                                                                  \
  do {                                                                               \
    const nezha_code code_ = (call);                                                 \
    if (code_ != NEZHA_OK) {                                                         \
      fprintf(stderr, "%s: %s: %s\n", #call, nezha_code_name(code_), nezha_last_error()); \
      return code_;                                                                  \
    }                                                                                \
  } while (0)

typedef struct job {
  nezha_comm_t comm;
  int rank;
  int size;
} job;

static nezha_code join(job* self) {
  CHECK(nezha_init_from_environment(NULL, &self->comm));
  CHECK(nezha_rank(self->comm, &self->rank));
  CHECK(nezha_world_size(self->comm, &self->size));
  if (self->size == 1) {
    fprintf(stderr, "this process is alone: start several with nezha run, srun or mpirun\n");
  }
  return NEZHA_OK;
}

/* Every element of every rank becomes the sum over the ranks of (rank + 1). */
static nezha_code sum_whole(const job* self, float* data, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] = (float)(self->rank + 1);
  nezha_work_t work = NULL;
  CHECK(nezha_all_reduce(self->comm, data, data, count, NEZHA_FLOAT32, NEZHA_SUM, NULL, &work));
  /* The operation is under way: time to compute something that does not touch `data`. */
  const nezha_code code = nezha_wait(work, 0);
  if (code != NEZHA_OK) fprintf(stderr, "rank %d: %s\n", self->rank, nezha_last_error());
  nezha_work_free(work);
  return code;
}

/* The same in two halves: each rank reduces a block of its own, and then all blocks are gathered.
 * Between the two, a rank may change its block: that is how optimizers with sharded state work. */
static nezha_code sum_in_halves(const job* self, float* data, size_t count) {
  const size_t block = count / (size_t)self->size;
  float* mine = data + (size_t)self->rank * block;
  for (size_t i = 0; i < count; ++i) data[i] = (float)(self->rank + 1);
  CHECK(nezha_reduce_scatter(self->comm, data, mine, block, NEZHA_FLOAT32, NEZHA_SUM, NULL, NULL));
  CHECK(nezha_all_gather(self->comm, mine, data, block, NEZHA_FLOAT32, NULL, NULL));
  return NEZHA_OK;
}

/* Passes this rank's number to the next one and returns the one of the rank before. */
static nezha_code pass_on(const job* self, int64_t* received) {
  const int next = (self->rank + 1) % self->size;
  const int before = (self->rank + self->size - 1) % self->size;
  const int64_t mine = self->rank;
  if (self->size == 1) {
    *received = mine;
    return NEZHA_OK;
  }
  nezha_work_t sent = NULL;
  CHECK(nezha_send(self->comm, &mine, 1, NEZHA_INT64, next, 7, NULL, &sent));
  const nezha_code code = nezha_recv(self->comm, received, 1, NEZHA_INT64, before, 7, NULL, NULL);
  if (code != NEZHA_OK) fprintf(stderr, "rank %d: %s\n", self->rank, nezha_last_error());
  nezha_work_free(sent); /* waits */
  return code;
}

static size_t count_wrong(const job* self, const float* data, size_t count) {
  const float expected = (float)(self->size * (self->size + 1) / 2);
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += data[i] != expected;
  return wrong;
}

static nezha_code run(const job* self, float* data, size_t* wrong) {
  int64_t received = -1;
  CHECK(sum_whole(self, data, kElements));
  *wrong += count_wrong(self, data, kElements);
  const size_t whole_blocks = kElements / (size_t)self->size * (size_t)self->size;
  CHECK(sum_in_halves(self, data, whole_blocks));
  *wrong += count_wrong(self, data, whole_blocks);
  CHECK(pass_on(self, &received));
  *wrong += received != (self->rank + self->size - 1) % self->size;
  CHECK(nezha_barrier(self->comm, NULL, NULL));
  printf("rank %d of %d: sum %g, message %lld, %zu wrong\n", self->rank, self->size, data[0],
         (long long)received, *wrong);
  return NEZHA_OK;
}

int main(void) {
  job self = {0};
  size_t wrong = 0;
  nezha_code code = join(&self);
  float* data = malloc(kElements * sizeof *data);
  if (code == NEZHA_OK && data == NULL) {
    fprintf(stderr, "rank %d: no memory for %d floats\n", self.rank, kElements);
    code = NEZHA_EXHAUSTED;
  }
  if (code == NEZHA_OK) code = run(&self, data, &wrong);
  free(data);
  nezha_destroy(self.comm); /* NULL is allowed */
  return code != NEZHA_OK || wrong != 0;
}
