/* Sockets, timers and signals of one thread: epoll, level-triggered, and a heap.
 *
 * A connection holds no buffer but the rest of a write that the socket did not take, so thousands of
 * them cost little.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

_Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

int64_t read_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

double read_cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Raise the limit of open files as far as no privilege is needed; gives it. */
long raise_file_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > LONG_MAX ? LONG_MAX : (long)limit.rlim_cur;
}

/* SIGTERM and SIGINT become events, whose pointer is the loop itself. */
void loop_open(struct loop *loop)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    *loop = (struct loop){.epoll = epoll_create1(EPOLL_CLOEXEC)};
    loop->signals = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (loop->epoll < 0 || loop->signals < 0)
        fail("epoll: %s", strerror(errno));
    loop_add(loop, loop->signals, loop);
}

void loop_close(struct loop *loop)
{
    free(loop->timers);
    close(loop->signals);
    close(loop->epoll);
}

void loop_add(struct loop *loop, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event))
        fail("epoll: %s", strerror(errno));
}

/* Wait for events until a moment (rounded up to 1 ms: fewer wake-ups, and every stamp is taken at its
 * write, so none is wrong by it); gives their number. */
int loop_wait(struct loop *loop, struct epoll_event *events, int room, int64_t until_ns)
{
    int64_t wait_ns = until_ns - read_clock_ns();
    int64_t wait_ms = wait_ns <= 0 ? 0 : wait_ns / 1000000 + 1;
    int found = epoll_wait(loop->epoll, events, room, wait_ms > INT_MAX ? INT_MAX : (int)wait_ms);
    if (found < 0 && errno != EINTR)
        fail("epoll: %s", strerror(errno));
    return found < 0 ? 0 : found;
}

/* --- timers: a binary heap, each connection knows its place */

static void place(struct loop *loop, struct connection *connection, size_t slot)
{
    loop->timers[slot] = connection;
    connection->timer_slot = slot;
}

static void settle(struct loop *loop, struct connection *connection, size_t slot)
{
    for (; slot > 1 && loop->timers[slot / 2]->due_ns > connection->due_ns; slot /= 2)
        place(loop, loop->timers[slot / 2], slot);
    for (;;) {
        size_t child = slot * 2;
        if (child > loop->timers_used)
            break;
        if (child < loop->timers_used &&
            loop->timers[child + 1]->due_ns < loop->timers[child]->due_ns)
            child++;
        if (loop->timers[child]->due_ns >= connection->due_ns)
            break;
        place(loop, loop->timers[child], slot);
        slot = child;
    }
    place(loop, connection, slot);
}

void timer_set(struct loop *loop, struct connection *connection, int64_t due_ns)
{
    connection->due_ns = due_ns;
    if (!connection->timer_slot) {
        if (++loop->timers_used >= loop->timers_room) {
            loop->timers_room = loop->timers_room ? loop->timers_room * 2 : 64;
            loop->timers = realloc(loop->timers, loop->timers_room * sizeof *loop->timers);
            if (!loop->timers)
                fail("out of memory");
        }
        connection->timer_slot = loop->timers_used;
    }
    settle(loop, connection, connection->timer_slot);
}

void timer_clear(struct loop *loop, struct connection *connection)
{
    size_t slot = connection->timer_slot;
    if (!slot)
        return;
    connection->timer_slot = 0;
    struct connection *last = loop->timers[loop->timers_used--];
    if (last != connection)
        settle(loop, last, slot);
}

struct connection *timer_first(const struct loop *loop)
{
    return loop->timers_used ? loop->timers[1] : NULL;
}

/* --- connections */

static void watch(struct loop *loop, struct connection *connection, int operation, uint32_t wanted)
{
    struct epoll_event event = {.events = wanted, .data.ptr = connection};
    if (epoll_ctl(loop->epoll, operation, connection->fd, &event))
        fail("epoll: %s", strerror(errno));
}

void connection_open(struct loop *loop, struct connection *connection, int fd)
{
    connection->fd = fd;
    watch(loop, connection, EPOLL_CTL_ADD, EPOLLIN);
}

/* What the socket takes now; -1 where it is broken. Not yet connected is like full. */
static ssize_t write_some(int fd, const char *data, size_t bytes)
{
    ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent >= 0)
        return sent;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* Send, and keep what the socket does not take: EPOLLOUT will tell when to flush. Never to be called
 * while something is pending. False: the connection is broken. */
bool connection_send(struct loop *loop, struct connection *connection, const char *data,
                     size_t bytes)
{
    ssize_t sent = write_some(connection->fd, data, bytes);
    if (sent < 0)
        return false;
    size_t rest = bytes - (size_t)sent;
    if (rest) {
        connection->pending = malloc(rest);
        if (!connection->pending)
            fail("out of memory");
        memcpy(connection->pending, data + sent, rest);
        connection->pending_at = 0;
        connection->pending_bytes = rest;
        watch(loop, connection, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
    return true;
}

bool connection_flush(struct loop *loop, struct connection *connection)
{
    if (!connection->pending)
        return true;
    size_t rest = connection->pending_bytes - connection->pending_at;
    ssize_t sent = write_some(connection->fd, connection->pending + connection->pending_at, rest);
    if (sent < 0)
        return false;
    connection->pending_at += (size_t)sent;
    if (connection->pending_at == connection->pending_bytes) {
        free(connection->pending);
        connection->pending = NULL;
        watch(loop, connection, EPOLL_CTL_MOD, EPOLLIN);
    }
    return true;
}

void connection_close(struct loop *loop, struct connection *connection)
{
    timer_clear(loop, connection);
    free(connection->pending);
    connection->pending = NULL;
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
}
