/* What the upstream says: heads, chunks and whole answers, made once, with room for their stamps. */
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define CHUNK_BEGIN                                                                                \
    "data: {\"id\":\"chatcmpl-load\",\"object\":\"chat.completion.chunk\",\"created\":1700000000," \
    "\"model\":\"load-1\",\"system_fingerprint\":\"fp_load\",\"choices\":["

struct text print_text(const char *format, ...)
{
    struct text text = {0};
    va_list arguments;
    va_start(arguments, format);
    int bytes = vasprintf(&text.data, format, arguments);
    va_end(arguments);
    if (bytes < 0)
        fail("out of memory");
    text.bytes = (size_t)bytes;
    const char *mark = strchr(text.data, STAMP_MARK);
    text.stamp_at = mark ? (size_t)(mark - text.data) + 1 : 0;
    return text;
}

/* A mark with room for the digits, and padding up to `bytes`. */
char *make_content(long bytes)
{
    char *content = malloc((size_t)bytes + 1);
    if (!content)
        fail("out of memory");
    memset(content, 'x', (size_t)bytes);
    memset(content, '0', STAMP_BYTES);
    content[0] = STAMP_MARK;
    content[bytes] = 0;
    return content;
}

struct text frame_chunk(struct text data)
{
    struct text framed = print_text("%zx\r\n%s\r\n", data.bytes, data.data);
    free(data.data);
    return framed;
}

struct stream_texts make_stream(const struct upstream_options *options, bool with_usage)
{
    if (options->api == RESPONSES)
        return make_response_stream(options);
    if (options->api == MESSAGES)
        return make_message_stream(options);
    if (options->api == GEMINI)
        return make_gemini_stream(options);
    const char *tail = with_usage ? ",\"usage\":null" : "";
    struct stream_texts texts;
    struct text role = frame_chunk(print_text(
        CHUNK_BEGIN "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                    "\"finish_reason\":null}]%s}\n\n",
        tail));
    texts.begin = print_text(STREAM_HEAD "%s", role.data);
    free(role.data);
    char *content = make_content(options->chunk_bytes);
    texts.chunk = frame_chunk(
        print_text(CHUNK_BEGIN "{\"index\":0,\"delta\":{\"content\":\"%s\"},\"logprobs\":null,"
                               "\"finish_reason\":null}]%s}\n\n",
                   content, tail));
    free(content);
    struct text usage = {0};
    if (with_usage)
        usage = frame_chunk(print_text(
            CHUNK_BEGIN
            "],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%ld,\"total_tokens\":%ld}}\n\n",
            PROMPT_TOKENS, options->chunks, PROMPT_TOKENS + options->chunks));
    struct text finish = frame_chunk(print_text(
        CHUNK_BEGIN
        "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]%s}\n\n",
        tail));
    struct text done = frame_chunk(print_text("data: [DONE]\n\n"));
    texts.end =
        print_text("%s%s%s0\r\n\r\n", finish.data, usage.data ? usage.data : "", done.data);
    free(finish.data);
    free(usage.data);
    free(done.data);
    return texts;
}

struct text make_json(const struct upstream_options *options)
{
    char *content = make_content(options->json_bytes);
    struct text body = print_text(
        "{\"id\":\"chatcmpl-load\",\"object\":\"chat.completion\",\"created\":1700000000,"
        "\"model\":\"load-1\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
        "\"content\":\"%s\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
        "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":7,\"total_tokens\":%d},"
        "\"system_fingerprint\":\"fp_load\"}",
        content, PROMPT_TOKENS, PROMPT_TOKENS + 7);
    struct text json = print_text("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                  "Content-Length: %zu\r\n" ANSWER_FIELDS "\r\n%s",
                                  body.bytes, body.data);
    free(content);
    free(body.data);
    return json;
}

void free_stream(struct stream_texts *texts)
{
    free(texts->begin.data);
    free(texts->chunk.data);
    free(texts->end.data);
}

/* Put a text with the stamp of `now_ns` at a place; gives the place after it. */
char *put_text(char *at, const struct text *text, int64_t now_ns)
{
    memcpy(at, text->data, text->bytes);
    if (text->stamp_at) {
        char *digit = at + text->stamp_at + STAMP_DIGITS;
        for (int i = 0; i < STAMP_DIGITS; i++, now_ns /= 10)
            *--digit = (char)('0' + now_ns % 10);
    }
    return at + text->bytes;
}
