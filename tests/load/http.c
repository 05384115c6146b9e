/* One HTTP/1.x message, read as its bytes come and however they are cut (RFC 9112).
 *
 * 1. Nothing is stored but the current line, of which MAX_LINE_BYTES are looked at.
 * 2. A message that the RFC says has no certain end (both framings, a length that is no number, a
 *    chunk without its end) is BROKEN, and stays so.
 * 3. Bytes after the message are left to the caller.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "load.h"

void message_begin(struct message *message, enum message_kind kind)
{
    *message = (struct message){.kind = kind, .state = START_LINE, .keep_alive = true};
}

/* A whole number without sign, and nothing but blanks or `stop` after it. */
static bool parse_number(const char *text, int base, char stop, uint64_t *number)
{
    char *end;
    const char *digits = base == 16 ? "0123456789abcdefABCDEF" : "0123456789";
    if (!*text || !strchr(digits, *text))
        return false;
    errno = 0;
    *number = strtoull(text, &end, base);
    end += strspn(end, " \t");
    return !errno && (!*end || *end == stop);
}

static enum message_state read_start_line(struct message *message)
{
    if (message->kind == REQUEST) {
        message->is_post = !strncmp(message->line, "POST ", 5);
        return FIELDS;
    }
    uint64_t status;
    const char *line = message->line;
    if (strncmp(line, "HTTP/1.", 7) || strlen(line) < 12 || line[8] != ' ')
        return BROKEN;
    char digits[4] = {line[9], line[10], line[11], 0};
    if (!parse_number(digits, 10, 0, &status) || status < 100 || status > 599)
        return BROKEN;
    message->status = (int)status;
    message->keep_alive = line[7] != '0';
    return FIELDS;
}

static enum message_state read_head_end(struct message *message)
{
    if (message->is_chunked && message->has_length)
        return BROKEN;
    if (message->kind == RESPONSE && message->status < 200) { /* an interim one; the real one follows */
        message_begin(message, RESPONSE);
        return START_LINE;
    }
    message->has_head = true;
    if (message->status == 204 || message->status == 304)
        return WHOLE;
    if (message->is_chunked)
        return CHUNK_SIZE;
    if (message->kind == RESPONSE && !message->has_length) {
        message->keep_alive = false;
        return BODY_UNTIL_CLOSE;
    }
    return message->left_bytes ? SIZED_BODY : WHOLE;
}

static enum message_state read_field(struct message *message)
{
    char *value = strchr(message->line, ':');
    if (!value)
        return BROKEN;
    *value++ = 0;
    value += strspn(value, " \t");
    if (!strcasecmp(message->line, "content-length")) {
        if (message->has_length || !parse_number(value, 10, 0, &message->left_bytes))
            return BROKEN;
        message->has_length = true;
    } else if (!strcasecmp(message->line, "transfer-encoding")) {
        if (strcasecmp(value, "chunked"))
            return BROKEN;
        message->is_chunked = true;
    } else if (!strcasecmp(message->line, "connection") && !strcasecmp(value, "close")) {
        message->keep_alive = false;
    }
    return FIELDS;
}

static enum message_state read_line(struct message *message)
{
    bool is_empty = !message->line[0];
    switch (message->state) {
    case START_LINE:
        return read_start_line(message);
    case FIELDS:
        return is_empty ? read_head_end(message) : read_field(message);
    case CHUNK_SIZE:
        if (!parse_number(message->line, 16, ';', &message->left_bytes))
            return BROKEN;
        return message->left_bytes ? CHUNK_DATA : TRAILERS;
    case CHUNK_END:
        return is_empty ? CHUNK_SIZE : BROKEN;
    case TRAILERS:
        return is_empty ? WHOLE : TRAILERS;
    default:
        return BROKEN;
    }
}

/* Take bytes up to the end of the current line, and read it where it is whole. */
static size_t feed_line(struct message *message, const char *data, size_t bytes)
{
    const char *end = memchr(data, '\n', bytes);
    size_t taken = end ? (size_t)(end - data) + 1 : bytes;
    size_t text = end ? taken - 1 : taken;
    size_t room = sizeof message->line - 1 - message->line_bytes;
    size_t kept = text < room ? text : room;
    memcpy(message->line + message->line_bytes, data, kept);
    message->line_bytes += kept;
    if (end) {
        while (message->line_bytes && strchr(" \t\r", message->line[message->line_bytes - 1]))
            message->line_bytes--;
        message->line[message->line_bytes] = 0;
        message->line_bytes = 0;
        message->state = read_line(message);
    }
    return taken;
}

/* Take bytes of the body, and hand them on. */
static size_t feed_body(struct message *message, const char *data, size_t bytes, take_body *take,
                        void *context)
{
    if (message->state == BODY_UNTIL_CLOSE) {
        take(context, data, bytes);
        return bytes;
    }
    size_t taken = bytes < message->left_bytes ? bytes : (size_t)message->left_bytes;
    take(context, data, taken);
    message->left_bytes -= taken;
    if (!message->left_bytes)
        message->state = message->state == CHUNK_DATA ? CHUNK_END : WHOLE;
    return taken;
}

/* Take bytes until they or the message end; gives how many were taken. */
size_t message_feed(struct message *message, const char *data, size_t bytes, take_body *take,
                    void *context)
{
    size_t at = 0;
    while (at < bytes && message->state != WHOLE && message->state != BROKEN) {
        enum message_state state = message->state;
        if (state == SIZED_BODY || state == CHUNK_DATA || state == BODY_UNTIL_CLOSE)
            at += feed_body(message, data + at, bytes - at, take, context);
        else
            at += feed_line(message, data + at, bytes - at);
    }
    return at;
}

/* The peer closed: the end of a body without framing, and a break of any other message. */
void message_finish(struct message *message)
{
    if (message->state == BODY_UNTIL_CLOSE)
        message->state = WHOLE;
    else if (message->state != WHOLE)
        message->state = BROKEN;
}
