/* An OpenAI-shaped upstream on loopback.
 *
 * 1. A POST whose body says "stream":true gets a stream: a chunk with the role, the content chunks,
 *    each with a stamp, a finish chunk, a usage event where the body says "include_usage":true, and
 *    [DONE]; or, where it speaks Responses, the events of one. Any other POST gets one JSON answer with a stamp and usage; any other method a 404.
 * 2. Each of a paced stream's content chunks is a write of its own, stamped just before it. The first
 *    comes at once; the others keep the rate from a phase that differs from stream to stream, for
 *    streams in step would be bursts that no real upstream sends. A reader that was slow gets what
 *    it is behind at once.
 * 3. An unpaced stream is written in pieces of up to WRITE_BYTES, whose chunks' stamps are 1 ns apart:
 *    no real stream says the same again and again, and some readers take that for a defect. Between
 *    two pieces the other streams have their turn.
 * 4. A connection holds no answer but what its socket did not take.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"

#define WRITE_BYTES 65536
#define READ_BYTES 65536
#define EVENTS 512
#define BACKLOG 4096 /* thousands of clients may come at once */
#define FOREVER_NS INT64_MAX

/* Whether a text was in bytes that came in pieces, white space aside. Inside a JSON string its quotes
 * would be escaped, so only a member is found; at which depth is not asked. */
struct finder {
    const char *text;
    size_t matched;
};

struct exchange {
    struct connection connection; /* the first member: events point at it */
    struct finder wants_stream, wants_usage;
    const struct stream_texts *streaming; /* NULL: no stream is open */
    long sent_chunks;                     /* -1: not even the head */
    struct exchange *previous, *next;     /* of those that are open */
};

static struct {
    const struct upstream_options *options;
    struct loop loop;
    struct text json;
    struct stream_texts plain, with_usage;
    int64_t interval_ns;
    struct exchange *open; /* the newest */
    char *out; /* one write's bytes */
    uint64_t connections, requests, streams, chunks, aborted, broken;
} up;

static void find(struct finder *finder, const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes && finder->text[finder->matched]; i++) {
        if (!finder->matched) { /* the megabytes of an image are passed over at once */
            const char *first = memchr(data + i, finder->text[0], bytes - i);
            if (!first)
                return;
            i = (size_t)(first - data);
        }
        if (strchr(" \t\r\n", data[i]) && data[i])
            continue;
        if (data[i] != finder->text[finder->matched])
            finder->matched = 0;
        if (data[i] == finder->text[finder->matched])
            finder->matched++;
    }
}

static bool was_found(const struct finder *finder)
{
    return !finder->text[finder->matched];
}

/* --- connections */

static void begin_request(struct exchange *exchange)
{
    message_begin(&exchange->connection.message, REQUEST);
    exchange->wants_stream = (struct finder){.text = "\"stream\":true"};
    exchange->wants_usage = (struct finder){.text = "\"include_usage\":true"};
}

static void close_exchange(struct exchange *exchange)
{
    up.aborted += exchange->connection.message.state == WHOLE; /* not answered to the end */
    connection_close(&up.loop, &exchange->connection);
    *(exchange->previous ? &exchange->previous->next : &up.open) = exchange->next;
    if (exchange->next)
        exchange->next->previous = exchange->previous;
    free(exchange);
}

/* After bytes were sent: wait for room, for the next chunk, or for the next request. False: the
 * connection is to be closed. */
static bool proceed(struct exchange *exchange)
{
    struct connection *connection = &exchange->connection;
    if (connection->pending)
        return true;
    if (exchange->streaming) {
        timer_set(&up.loop, connection, connection->due_ns);
        return true;
    }
    bool keep_alive = connection->message.keep_alive;
    begin_request(exchange);
    return keep_alive;
}

/* From 0 up to 1, spread evenly however many streams there are (multiples of the golden ratio). */
static double find_phase(uint64_t stream)
{
    double turns = (double)stream * 0.6180339887498949;
    return turns - (double)(uint64_t)turns;
}

/* Whether one more content chunk belongs into the write that `at` is the end of (rules 2 and 3). */
static bool has_room(const struct exchange *exchange, const char *at, bool has_chunk)
{
    if (exchange->sent_chunks == up.options->chunks)
        return false;
    size_t bytes = (size_t)(at - up.out) + exchange->streaming->chunk.bytes;
    return !has_chunk || (!up.interval_ns && bytes <= WRITE_BYTES);
}

/* Send what of a stream is due. False: the connection is to be closed. */
static bool advance(struct exchange *exchange)
{
    const struct stream_texts *texts = exchange->streaming;
    struct connection *connection = &exchange->connection;
    int64_t now_ns = read_clock_ns();
    char *at = up.out;
    bool has_chunk = false;
    if (exchange->sent_chunks < 0) {
        at = put_text(at, &texts->begin, now_ns);
        exchange->sent_chunks = 0;
        connection->due_ns = now_ns - (int64_t)(find_phase(up.streams) * (double)up.interval_ns);
    }
    connection->due_ns = up.interval_ns ? connection->due_ns + up.interval_ns : now_ns;
    while (has_room(exchange, at, has_chunk)) {
        at = put_text(at, &texts->chunk, now_ns++);
        exchange->sent_chunks++;
        up.chunks++;
        has_chunk = true;
    }
    if (exchange->sent_chunks == up.options->chunks && !(up.interval_ns && has_chunk)) {
        at = put_text(at, &texts->end, now_ns);
        exchange->streaming = NULL;
    }
    return connection_send(&up.loop, connection, up.out, (size_t)(at - up.out)) &&
           proceed(exchange);
}

/* The request is whole. False: the connection is to be closed. */
static bool answer(struct exchange *exchange)
{
    static const char not_found[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    up.requests++;
    if (exchange->connection.message.is_post && was_found(&exchange->wants_stream)) {
        up.streams++;
        exchange->streaming = was_found(&exchange->wants_usage) ? &up.with_usage : &up.plain;
        exchange->sent_chunks = -1;
        return advance(exchange);
    }
    char *end = put_text(up.out, &up.json, read_clock_ns());
    const char *data = exchange->connection.message.is_post ? up.out : not_found;
    size_t bytes = data == up.out ? (size_t)(end - up.out) : sizeof not_found - 1;
    return connection_send(&up.loop, &exchange->connection, data, bytes) && proceed(exchange);
}

static void take_request_body(void *context, const char *data, size_t bytes)
{
    struct exchange *exchange = context;
    find(&exchange->wants_stream, data, bytes);
    find(&exchange->wants_usage, data, bytes);
}

/* False: the connection is to be closed. Bytes before the answer was sent are no request we take:
 * proxies do not pipeline. */
static bool receive(struct exchange *exchange)
{
    static char in[READ_BYTES];
    ssize_t got = recv(exchange->connection.fd, in, sizeof in, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (!got)
        return false;
    struct message *message = &exchange->connection.message;
    size_t taken = message_feed(message, in, (size_t)got, take_request_body, exchange);
    if (taken < (size_t)got || message->state == BROKEN) {
        up.broken++;
        return false;
    }
    return message->state != WHOLE || answer(exchange);
}

static void accept_all(int listener)
{
    int fd, yes = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct exchange *exchange = calloc(1, sizeof *exchange);
        if (!exchange)
            fail("out of memory");
        begin_request(exchange);
        exchange->next = up.open;
        if (up.open)
            up.open->previous = exchange;
        up.open = exchange;
        connection_open(&up.loop, &exchange->connection, fd);
        up.connections++;
    }
    if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
        fail("accept: %s", strerror(errno)); /* a tool at its own limit would measure nothing */
}

static int open_listener(int port)
{
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) || listen(fd, BACKLOG) ||
        getsockname(fd, (struct sockaddr *)&address, &bytes))
        fail("port %d: %s", port, strerror(errno));
    printf("{\"port\":%d}\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Events of one connection; the peer's leaving is told by them too. */
static void handle(struct exchange *exchange, uint32_t events)
{
    struct connection *connection = &exchange->connection;
    bool is_open = true;
    if (connection->pending && events & EPOLLOUT)
        is_open = connection_flush(&up.loop, connection) && proceed(exchange);
    if (is_open && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        is_open = receive(exchange);
    if (!is_open)
        close_exchange(exchange);
}

static void advance_due(int64_t now_ns)
{
    struct connection *due;
    while ((due = timer_first(&up.loop)) && due->due_ns <= now_ns) {
        struct exchange *exchange = (struct exchange *)due;
        timer_clear(&up.loop, due);
        if (!advance(exchange))
            close_exchange(exchange);
    }
}

/* Serve until a signal comes. */
static void serve(int listener)
{
    struct epoll_event events[EVENTS];
    for (;;) {
        const struct connection *next = timer_first(&up.loop);
        int found = loop_wait(&up.loop, events, EVENTS, next ? next->due_ns : FOREVER_NS);
        for (int i = 0; i < found; i++) {
            if (events[i].data.ptr == &up.loop)
                return;
            if (events[i].data.ptr == &up)
                accept_all(listener);
            else
                handle(events[i].data.ptr, events[i].events);
        }
        advance_due(read_clock_ns());
    }
}

static void prepare(const struct upstream_options *options)
{
    up.options = options;
    up.interval_ns = options->rate > 0 ? (int64_t)((double)NS_PER_SECOND / options->rate) : 0;
    up.json = make_json(options);
    up.plain = make_stream(options, false);
    up.with_usage = make_stream(options, true);
    size_t room = up.with_usage.begin.bytes + up.with_usage.chunk.bytes + up.with_usage.end.bytes;
    room += WRITE_BYTES + up.json.bytes;
    up.out = malloc(room);
    if (!up.out)
        fail("out of memory");
}

/* Print the port, serve until SIGTERM or SIGINT, print what was counted. */
int run_upstream(const struct upstream_options *options)
{
    raise_file_limit();
    prepare(options);
    loop_open(&up.loop);
    int listener = open_listener(options->port);
    loop_add(&up.loop, listener, &up);
    serve(listener);
    printf("{\"connections\":%ju,\"requests\":%ju,\"streams\":%ju,\"chunks\":%ju,\"aborted\":%ju,"
           "\"broken\":%ju,\"cpu_seconds\":%.6f}\n",
           (uintmax_t)up.connections, (uintmax_t)up.requests, (uintmax_t)up.streams,
           (uintmax_t)up.chunks, (uintmax_t)up.aborted, (uintmax_t)up.broken, read_cpu_seconds());
    while (up.open)
        close_exchange(up.open);
    close(listener);
    free_stream(&up.plain);
    free_stream(&up.with_usage);
    free(up.json.data);
    free(up.out);
    loop_close(&up.loop);
    return 0;
}
