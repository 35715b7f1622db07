// Files that the library writes for people and reads from them: how their names are made, and how they
// come into being.
//
// Contract: any thread. A reader never sees half a file: it is written beside its place and then
// moved there. Only regular files are read: nobody waits for the writer of a pipe. Errors:
// `exhausted` without descriptors or memory of the system, else `invalid_argument`, naming the file
// and the reason. Streams are not used: they would take a std::bad_alloc for the end of a file.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/hidden_text.h"
#include "base/status.h"

namespace nezha {

// The name of this process's host; "?" when the system does not tell.
const char* host_name();

// "%h" becomes the host's name, "%p" the process id, "%r" the rank (where there is one), "%%" a percent
// sign; everything else stays.
std::string expand_path(std::string_view pattern, int rank = -1);

// Whether the pattern names a file for each rank.
bool differs_by_rank(std::string_view pattern);

// Reads the first `bytes_max` bytes of a file. `Text`: std::string, or HiddenText where a secret
// may be among them. `doubt` becomes a sentence where users other than this one and root could have
// written the file, else "".
template <class Text = std::string>
Result<Text> read_file(const std::string& path, size_t bytes_max, std::string* doubt = nullptr);

// Reads a file that somebody named as an input of a job, as read_file does; logs its `doubt` once.
Result<std::string> read_input_file(const std::string& path, size_t bytes_max);

// Reads a file that holds a secret: a regular file that belongs to this user or to root and that
// nobody else can read or write. (The group may read a file of root if this user is not root: so
// systemd and Kubernetes hand a secret to a service.) `invalid_argument` says what is not so.
Result<HiddenText> read_private_file(const std::string& path, size_t bytes_max);

// Replaces the file at once; with the permissions of any new file. `to_disk`: waits for the disk, so that
// a host that loses its power has the old file or the new one. A limit of a file's size (RLIMIT_FSIZE) is
// an error like a full disk, and no signal.
Status write_file(const std::string& path, std::string_view text, bool to_disk = false);

// Does `work`, which uses files, on a thread for that (base/writer.h): for callers who must not
// wait for a file system that may never answer. False: too much waits there; it will not be done.
bool post_file_work(std::function<void()> work);
// Whether all that was posted until now is done, now or within `patience`.
bool finish_file_work(Nanoseconds patience) noexcept;

}  // namespace nezha
