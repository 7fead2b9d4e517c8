/* Lets the k-th write or fsync of a process below one directory fail, as a full or broken disk does.

   Preloaded by tests/file_faults.py. Nothing happens until `faults_arm` is called. Rust's standard library and Python
   write through libc, so their calls arrive here. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[4096];
static long write_at, sync_at, writes, syncs;
static int stays_full;

void faults_arm(const char *directory, long failing_write, long failing_sync, int stays)
{
    write_at = failing_write;
    sync_at = failing_sync;
    stays_full = stays;
    writes = syncs = 0;
    strncpy(root, directory, sizeof root - 1);
}

/* For processes that nobody can ask to call `faults_arm`, such as the workers of Spark. */
__attribute__((constructor)) static void arm_from_environment(void)
{
    const char *directory = getenv("FILE_FAULTS_ROOT"), *number = getenv("FILE_FAULTS_WRITE");
    if (directory && number)
        faults_arm(directory, atol(number), 0, 0);
}

long faults_writes(void) { return writes; }
long faults_syncs(void) { return syncs; }

static int is_below(int descriptor)
{
    char link[64], path[4096];
    if (!root[0])
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    int before = errno;
    ssize_t size = syscall(SYS_readlink, link, path, sizeof path - 1);
    errno = before;
    if (size < 0)
        return 0;
    path[size] = 0;
    return !strncmp(path, root, strlen(root));
}

static int fails(int descriptor, long *count, long failing)
{
    if (!is_below(descriptor))
        return 0;
    long number = __sync_add_and_fetch(count, 1);
    return failing && (number == failing || (stays_full && number > failing));
}

ssize_t write(int descriptor, const void *data, size_t size)
{
    if (fails(descriptor, &writes, write_at)) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_write, descriptor, data, size);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off_t offset)
{
    if (fails(descriptor, &writes, write_at)) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, descriptor, data, size, offset);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset)
{
    return pwrite64(descriptor, data, size, offset);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    if (fails(descriptor, &writes, write_at)) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_writev, descriptor, parts, count);
}

int fsync(int descriptor)
{
    if (fails(descriptor, &syncs, sync_at)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_fsync, descriptor);
}

int fdatasync(int descriptor)
{
    if (fails(descriptor, &syncs, sync_at)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_fdatasync, descriptor);
}
