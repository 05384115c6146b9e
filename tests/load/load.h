/* What both sides of the load tool share; main.c says what the tool is. */
#ifndef LOAD_H
#define LOAD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>

#define NS_PER_SECOND INT64_C(1000000000)

/* A stamp is MARK and the CLOCK_MONOTONIC time in ns as STAMP_DIGITS digits, in the content of a chunk
 * (nothing else the upstream says has a MARK). 19 digits hold every int64_t. */
#define STAMP_MARK '@'
#define STAMP_DIGITS 19
#define STAMP_BYTES (1 + STAMP_DIGITS)

/* http.c: one HTTP/1.x message, read as its bytes come. */

/* Longest line that is looked at: the fields of interest are short. What is longer is read past. */
#define MAX_LINE_BYTES 256

enum message_kind { REQUEST, RESPONSE };

enum message_state {
    START_LINE,
    FIELDS,
    SIZED_BODY,
    CHUNK_SIZE,
    CHUNK_DATA,
    CHUNK_END,
    TRAILERS,
    BODY_UNTIL_CLOSE,
    WHOLE,
    BROKEN,
};

struct message {
    enum message_kind kind;
    enum message_state state;
    int status;      /* of a response */
    bool has_head;   /* whether the head is whole */
    bool is_post;    /* of a request */
    bool keep_alive; /* whether the connection may carry another message */
    bool is_chunked;
    bool has_length;
    uint64_t left_bytes; /* of the body, or of the current chunk */
    char line[MAX_LINE_BYTES];
    size_t line_bytes;
};

typedef void take_body(void *context, const char *data, size_t bytes);

void message_begin(struct message *message, enum message_kind kind);
size_t message_feed(struct message *message, const char *data, size_t bytes, take_body *take,
                    void *context);
void message_finish(struct message *message);

/* loop.c: sockets, timers and signals. */

struct connection {
    int fd;        /* -1: closed */
    char *pending; /* what the socket did not take yet */
    size_t pending_at, pending_bytes;
    int64_t due_ns;    /* when its timer is due */
    size_t timer_slot; /* in the heap, counted from 1; 0: no timer */
    struct message message;
};

struct loop {
    int epoll, signals;
    struct connection **timers; /* a heap, the first due on top */
    size_t timers_used, timers_room;
};

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t read_clock_ns(void);
double read_cpu_seconds(void);
long raise_file_limit(void);

void loop_open(struct loop *loop);
void loop_close(struct loop *loop);
void loop_add(struct loop *loop, int fd, void *what);
int loop_wait(struct loop *loop, struct epoll_event *events, int room, int64_t until_ns);

void timer_set(struct loop *loop, struct connection *connection, int64_t due_ns);
void timer_clear(struct loop *loop, struct connection *connection);
struct connection *timer_first(const struct loop *loop);

void connection_open(struct loop *loop, struct connection *connection, int fd);
bool connection_send(struct loop *loop, struct connection *connection, const char *data,
                     size_t bytes);
bool connection_flush(struct loop *loop, struct connection *connection);
void connection_close(struct loop *loop, struct connection *connection);

/* histogram.c: percentiles in bounded memory. */

/* Linear steps within each power of two: a percentile is at most 1/128 too high. */
#define STEP_BITS 7
#define BUCKETS ((64 - STEP_BITS + 1) << STEP_BITS)

struct histogram {
    uint64_t counts[BUCKETS];
    uint64_t count, max;
};

void histogram_add(struct histogram *histogram, uint64_t value);
void histogram_print(const struct histogram *histogram, const char *name);

/* The APIs that are spoken. */
enum api { CHAT, RESPONSES, MESSAGES, GEMINI };

/* The two programs. */

struct upstream_options {
    int port;
    enum api api;
    long chunks, chunk_bytes, json_bytes;
    double rate; /* chunks/s of each stream; 0: as fast as the socket takes them */
};

struct client_options {
    int port;
    bool is_stream;
    enum api api;
    long connections, requests; /* requests 0: until the time is over */
    long messages;              /* of a chat */
    double seconds;             /* 0: until the requests are sent */
    double rate;                /* requests/s of all connections; 0: closed loop */
    double silence_seconds;
    const char *model;
};

int run_upstream(const struct upstream_options *options);
int run_client(const struct client_options *options);

/* answers.c, responses.c, messages.c, gemini.c: what the upstream says. */

#define PROMPT_TOKENS 9
#define ANSWER_FIELDS "x-request-id: req_load\r\nopenai-processing-ms: 1\r\n"
#define STREAM_HEAD                                                                                \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"                        \
    "Transfer-Encoding: chunked\r\n" ANSWER_FIELDS "\r\n"

/* How a stream ends; that of a response by its last member, and its brackets. */
#define CHAT_END "data: [DONE]\n\n"
#define MESSAGE_END "{\"type\":\"message_stop\"}\n\n"
#define GEMINI_END "\"responseId\":\"load\"}\r\n\r\n"
#define RESPONSE_END ",\"user\":null}"

/* What is ready to be sent but for its stamp. */
struct text {
    char *data;
    size_t bytes, stamp_at;
};

/* The events of a stream, framed as HTTP chunks. */
struct stream_texts {
    struct text begin, chunk, end;
};

struct text print_text(const char *format, ...);
struct text frame_chunk(struct text data);
char *make_content(long bytes);
struct stream_texts make_stream(const struct upstream_options *options, bool with_usage);
struct stream_texts make_response_stream(const struct upstream_options *options);
struct stream_texts make_message_stream(const struct upstream_options *options);
struct stream_texts make_gemini_stream(const struct upstream_options *options);
void free_stream(struct stream_texts *texts);
struct text make_json(const struct upstream_options *options);
char *put_text(char *at, const struct text *text, int64_t now_ns);

#endif
