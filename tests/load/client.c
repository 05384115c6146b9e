/* A client of chats on kept connections, closed loop or paced.
 *
 * 1. Every request ends once: answered (its answer came whole; a stream of status 200 up to its last event),
 *    cut (its head came, the rest did not), or unanswered (refused, reset or silent before that).
 * 2. A paced request counts from the moment it was due, so that a proxy that stalls is charged for
 *    those that could not be sent meanwhile.
 * 3. Time to first byte is that of the body: a head alone is nothing anybody waits for. Times of
 *    answers are those of status 200.
 * 4. The delay of a chunk is from its stamp to the end of the read that brought it. A JSON answer has
 *    one stamp, and counts as one chunk.
 * 5. It ends: after `seconds` or a signal nothing more is sent, and where nothing at all comes or goes
 *    for `silence_seconds`, it gives up on what is open.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"

#define READ_BYTES 262144
#define EVENTS 512
#define MAX_REQUEST_BYTES 2048 /* of a request without its messages */
#define MAX_LISTED 10000           /* numbers of requests that failed, of each kind */
#define REST_NS (NS_PER_SECOND / 10) /* after a request that got no answer */
#define NO_STAMP (-1)

#define RESPONSE_LAST RESPONSE_END "}\n\n"
#define TAIL_BYTES (sizeof MESSAGE_END - 1) /* the longest of the ends */

static const char *const ENDS[] = {
    [CHAT] = CHAT_END, [RESPONSES] = RESPONSE_LAST, [MESSAGES] = MESSAGE_END,
    [GEMINI] = GEMINI_END};
static const char *const PATHS[] = {
    [CHAT] = "chat/completions", [RESPONSES] = "responses", [MESSAGES] = "messages",
    [GEMINI] = "models/load-1:streamGenerateContent?alt=sse"};
static const char *const CONVERSATIONS[] = {
    [CHAT] = "messages", [RESPONSES] = "input", [MESSAGES] = "messages", [GEMINI] = "contents"};

static const char *const FORMS[] = {"%s{\"role\":\"%s\",\"content\":\"%s\"}",
                                    "%s{\"role\":\"%s\",\"parts\":[{\"text\":\"%s\"}]}"};

enum call_state { IDLE, BUSY, RESTING };

struct call {
    struct connection connection; /* the first member: events point at it */
    enum call_state state;
    long number; /* of the request, counted from 0 */
    int64_t start_ns;
    int stamp_digits; /* read so far, or NO_STAMP */
    uint64_t stamp_ns;
    uint64_t body_bytes;
    char tail[TAIL_BYTES]; /* the last bytes of the body */
};

struct failures {
    uint64_t count;
    long numbers[MAX_LISTED];
};

static struct {
    const struct client_options *options;
    struct loop loop;
    struct call *calls;
    char *messages; /* of every chat */
    size_t messages_bytes;
    char *request, *body; /* of the request that is sent */
    struct call **idle;   /* a stack */
    long idle_used;
    long sent, busy;
    int64_t begun_ns, last_ns; /* of the first request; of the last byte sent or received */
    int64_t next_ns;           /* when the next paced request is due */
    int64_t end_ns;            /* nothing is sent after it */
    int64_t read_ns;           /* of the bytes in hand */
    bool stopping, silent;
    uint64_t statuses[600], answered, bytes;
    struct failures cut, unanswered;
    long refused; /* of those unanswered: nobody took the connection */
    struct histogram delay, ttfb, latency;
} cl;

static bool may_send(int64_t now_ns)
{
    return !cl.stopping && now_ns < cl.end_ns &&
           (!cl.options->requests || cl.sent < cl.options->requests);
}

/* --- what comes back */

static void read_stamps(struct call *call, const char *data, size_t bytes)
{
    const char *end = data + bytes;
    while (data < end) {
        if (call->stamp_digits == NO_STAMP) {
            data = memchr(data, STAMP_MARK, (size_t)(end - data));
            if (!data)
                return;
            data++;
            call->stamp_digits = 0;
            call->stamp_ns = 0;
        } else if (*data < '0' || *data > '9') {
            call->stamp_digits = NO_STAMP;
        } else {
            call->stamp_ns = call->stamp_ns * 10 + (uint64_t)(*data++ - '0');
            if (++call->stamp_digits == STAMP_DIGITS) {
                if (call->stamp_ns <= (uint64_t)cl.read_ns)
                    histogram_add(&cl.delay, (uint64_t)cl.read_ns - call->stamp_ns);
                call->stamp_digits = NO_STAMP;
            }
        }
    }
}

static void keep_tail(struct call *call, const char *data, size_t bytes)
{
    size_t taken = bytes < TAIL_BYTES ? bytes : TAIL_BYTES;
    memmove(call->tail, call->tail + taken, TAIL_BYTES - taken);
    memcpy(call->tail + TAIL_BYTES - taken, data + bytes - taken, taken);
}

static void take_answer_body(void *context, const char *data, size_t bytes)
{
    struct call *call = context;
    if (!call->body_bytes && call->connection.message.status == 200)
        histogram_add(&cl.ttfb, (uint64_t)(cl.read_ns - call->start_ns));
    call->body_bytes += bytes;
    cl.bytes += bytes;
    read_stamps(call, data, bytes);
    keep_tail(call, data, bytes);
}

static bool is_complete(const struct call *call)
{
    if (call->connection.message.state != WHOLE)
        return false;
    if (!cl.options->is_stream || call->connection.message.status != 200)
        return true;
    const char *end = ENDS[cl.options->api];
    return !memcmp(call->tail + TAIL_BYTES - strlen(end), end, strlen(end));
}

static void add_failure(struct failures *failures, long number)
{
    if (failures->count < MAX_LISTED)
        failures->numbers[failures->count] = number;
    failures->count++;
}

/* --- requests */

static void rest(struct call *call)
{
    call->state = RESTING;
    timer_set(&cl.loop, &call->connection, read_clock_ns() + REST_NS);
}

/* Rule 1: the one place where a request ends. */
static void end_call(struct call *call)
{
    const struct message *message = &call->connection.message;
    bool keep_alive = message->state == WHOLE && message->keep_alive;
    cl.refused += errno == ECONNREFUSED;
    cl.busy--;
    if (is_complete(call)) {
        cl.answered++;
        cl.statuses[message->status]++;
        if (message->status == 200)
            histogram_add(&cl.latency, (uint64_t)(cl.read_ns - call->start_ns));
    } else {
        add_failure(message->has_head ? &cl.cut : &cl.unanswered, call->number);
    }
    if (!keep_alive)
        connection_close(&cl.loop, &call->connection);
    if (!message->has_head) {
        rest(call);
        return;
    }
    call->state = IDLE;
    cl.idle[cl.idle_used++] = call;
}

/* As in a conversation: who speaks first is the system, who speaks last the user. */
static void make_messages(long count)
{
    FILE *text = open_memstream(&cl.messages, &cl.messages_bytes);
    if (!text)
        fail("out of memory");
    for (long i = 0; i < count; i++) {
        const char *role = (count - i) % 2 ? "user" : "assistant";
        const char *content = "What was said between: a sentence or two.";
        if (i == count - 1)
            content = "Hello";
        else if (!i)
            role = "system", content = "You are a helpful assistant.";
        fprintf(text, FORMS[cl.options->api == GEMINI], i ? "," : "", role, content);
    }
    if (fclose(text))
        fail("out of memory");
    cl.request = malloc(cl.messages_bytes + MAX_REQUEST_BYTES);
    cl.body = malloc(cl.messages_bytes + MAX_REQUEST_BYTES);
    if (!cl.request || !cl.body)
        fail("out of memory");
}

static size_t print_request(long number)
{
    size_t room = cl.messages_bytes + MAX_REQUEST_BYTES;
    int bytes = snprintf(
        cl.body, room,
        "{\"model\":\"%s\",\"%s\":[%s],\"temperature\":0.2,\"user\":\"%s-%ld\"%s}",
        cl.options->model, CONVERSATIONS[cl.options->api], cl.messages,
        cl.options->model, number,
        cl.options->is_stream ? ",\"stream\":true" : "");
    return (size_t)snprintf(
        cl.request, room,
        "POST /v1/%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        "Authorization: Bearer sk-load\r\nContent-Type: application/json\r\n"
        "Accept: application/json\r\nUser-Agent: load/1\r\nContent-Length: %d\r\n\r\n%s",
        PATHS[cl.options->api], cl.options->port, bytes, cl.body);
}

static bool connect_call(struct call *call)
{
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)cl.options->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0)
        fail("socket: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) {
        close(fd);
        return false;
    }
    connection_open(&cl.loop, &call->connection, fd);
    return true;
}

static void begin_call(struct call *call, int64_t start_ns)
{
    struct connection *connection = &call->connection;
    errno = 0;
    call->state = BUSY;
    call->number = cl.sent++;
    call->start_ns = start_ns;
    call->stamp_digits = NO_STAMP;
    call->body_bytes = 0;
    memset(call->tail, 0, sizeof call->tail);
    message_begin(&connection->message, RESPONSE);
    cl.busy++;
    cl.last_ns = read_clock_ns();
    size_t bytes = print_request(call->number);
    if ((connection->fd < 0 && !connect_call(call)) ||
        !connection_send(&cl.loop, connection, cl.request, bytes))
        end_call(call);
}

/* Send what is due on connections that are free. A failed one rests, so this ends. */
static void begin_due(void)
{
    int64_t now_ns = read_clock_ns();
    while (cl.idle_used && may_send(now_ns) && cl.next_ns <= now_ns) {
        int64_t start_ns = now_ns;
        if (cl.options->rate > 0) {
            start_ns = cl.next_ns;
            cl.next_ns = cl.begun_ns +
                         (int64_t)((double)(cl.sent + 1) * (double)NS_PER_SECOND / cl.options->rate);
        }
        begin_call(cl.idle[--cl.idle_used], start_ns);
        now_ns = read_clock_ns();
    }
}

static void handle_busy(struct call *call, uint32_t events)
{
    static char in[READ_BYTES];
    struct connection *connection = &call->connection;
    errno = 0;
    if (events & EPOLLOUT && !connection_flush(&cl.loop, connection)) {
        end_call(call);
        return;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    ssize_t got = recv(connection->fd, in, sizeof in, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    cl.read_ns = cl.last_ns = read_clock_ns();
    struct message *message = &connection->message;
    if (got > 0) {
        size_t taken = message_feed(message, in, (size_t)got, take_answer_body, call);
        if (taken < (size_t)got)
            message->keep_alive = false; /* an answer to nothing */
    } else if (!got) {
        message_finish(message);
    }
    if (got < 0 || message->state == WHOLE || message->state == BROKEN)
        end_call(call);
}

static void handle(struct call *call, uint32_t events)
{
    if (call->state == BUSY)
        handle_busy(call, events);
    else
        connection_close(&cl.loop, &call->connection); /* the other side is done with it */
}

static void wake_rested(int64_t now_ns)
{
    struct connection *due;
    while ((due = timer_first(&cl.loop)) && due->due_ns <= now_ns) {
        struct call *call = (struct call *)due;
        timer_clear(&cl.loop, due);
        call->state = IDLE;
        cl.idle[cl.idle_used++] = call;
    }
}

/* Rule 5: what is open has had its time. */
static void give_up(void)
{
    cl.silent = cl.stopping = true;
    errno = 0;
    for (long i = 0; i < cl.options->connections; i++)
        if (cl.calls[i].state == BUSY)
            end_call(&cl.calls[i]);
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* The next moment at which something is to be done though no event comes. */
static int64_t find_wake_up(int64_t silence_ns)
{
    const struct connection *rested = timer_first(&cl.loop);
    int64_t wake_ns = cl.busy ? cl.last_ns + silence_ns : INT64_MAX;
    if (!may_send(read_clock_ns()))
        return wake_ns;
    wake_ns = earlier(wake_ns, cl.end_ns);
    if (cl.idle_used)
        wake_ns = earlier(wake_ns, cl.next_ns);
    return rested ? earlier(wake_ns, rested->due_ns) : wake_ns;
}

static void run(void)
{
    struct epoll_event events[EVENTS];
    int64_t silence_ns = (int64_t)(cl.options->silence_seconds * (double)NS_PER_SECOND);
    begin_due();
    while (cl.busy || may_send(read_clock_ns())) {
        int found = loop_wait(&cl.loop, events, EVENTS, find_wake_up(silence_ns));
        for (int i = 0; i < found; i++) {
            if (events[i].data.ptr == &cl.loop)
                cl.stopping = true;
            else
                handle(events[i].data.ptr, events[i].events);
            begin_due();
        }
        if (cl.busy && read_clock_ns() >= cl.last_ns + silence_ns)
            give_up();
        wake_rested(read_clock_ns());
        begin_due();
    }
}

/* --- results */

static void print_failures(const struct failures *failures, const char *name)
{
    printf(",\"%s\":%ju,\"%s_numbers\":[", name, (uintmax_t)failures->count, name);
    for (size_t i = 0; i < failures->count && i < MAX_LISTED; i++)
        printf("%s%ld", i ? "," : "", failures->numbers[i]);
    printf("]");
}

static void print_result(void)
{
    double seconds = (double)(cl.last_ns - cl.begun_ns) / (double)NS_PER_SECOND;
    double cpu_seconds = read_cpu_seconds();
    const char *comma = "";
    printf("{\"requests\":%ld,\"answered\":%ju,\"statuses\":{", cl.sent, (uintmax_t)cl.answered);
    for (int status = 100; status < 600; status++) {
        if (cl.statuses[status]) {
            printf("%s\"%d\":%ju", comma, status, (uintmax_t)cl.statuses[status]);
            comma = ",";
        }
    }
    printf("}");
    print_failures(&cl.cut, "cut");
    print_failures(&cl.unanswered, "unanswered");
    printf(",\"refused\":%ld,\"silent\":%s,\"body_bytes\":%ju,\"seconds\":%.6f,\"answers_per_second\":%.1f"
           ",\"cpu_seconds\":%.6f",
           cl.refused, cl.silent ? "true" : "false", (uintmax_t)cl.bytes, seconds,
           seconds > 0 ? (double)cl.answered / seconds : 0, cpu_seconds);
    histogram_print(&cl.delay, "chunk_delay");
    histogram_print(&cl.ttfb, "ttfb");
    histogram_print(&cl.latency, "latency");
    printf("}\n");
}

/* Send the requests, and print what came of them. */
int run_client(const struct client_options *options)
{
    long most = raise_file_limit() - 16;
    if (options->connections > most)
        fail("%ld connections are more than the %ld files that may be open", options->connections,
             most);
    cl.options = options;
    cl.calls = calloc((size_t)options->connections, sizeof *cl.calls);
    cl.idle = calloc((size_t)options->connections, sizeof(struct call *));
    if (!cl.calls || !cl.idle)
        fail("out of memory");
    for (long i = options->connections - 1; i >= 0; i--) {
        cl.calls[i].connection.fd = -1;
        cl.idle[cl.idle_used++] = &cl.calls[i];
    }
    make_messages(options->messages);
    loop_open(&cl.loop);
    cl.begun_ns = cl.last_ns = cl.next_ns = read_clock_ns();
    cl.end_ns = INT64_MAX;
    if (options->seconds > 0)
        cl.end_ns = cl.begun_ns + (int64_t)(options->seconds * (double)NS_PER_SECOND);
    run();
    print_result();
    for (long i = 0; i < options->connections; i++)
        connection_close(&cl.loop, &cl.calls[i].connection);
    loop_close(&cl.loop);
    free(cl.calls);
    free(cl.idle);
    free(cl.messages);
    free(cl.request);
    free(cl.body);
    return 0;
}
