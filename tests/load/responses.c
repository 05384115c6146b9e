/* What the upstream says where it speaks Responses (OpenAI, POST /v1/responses): a message of one text,
 * whose deltas are stamped in their padding, as the text itself is told again at the end. */
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define RESPONSE_FIELDS                                                                            \
    "\"id\":\"resp_load\",\"object\":\"response\",\"created_at\":1700000000,\"model\":\"load-1\"," \
    "\"error\":null,\"incomplete_details\":null,\"instructions\":null,\"parallel_tool_calls\":true," \
    "\"previous_response_id\":null,\"reasoning\":{\"effort\":null,\"summary\":null},\"store\":true," \
    "\"temperature\":0.2,\"text\":{\"format\":{\"type\":\"text\"}},\"tool_choice\":\"auto\"," \
    "\"tools\":[],\"top_p\":1.0,\"truncation\":\"disabled\""
#define IN_PART "\"item_id\":\"msg_load\",\"output_index\":0,\"content_index\":0"
#define PART "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"%s\"}"
#define ITEM(status, content)                                                                      \
    "{\"id\":\"msg_load\",\"type\":\"message\",\"status\":\"" status "\",\"role\":\"assistant\"," \
    "\"content\":[" content "]}"
#define EVENT(type, members)                                                                       \
    "event: " type "\ndata: {\"type\":\"" type "\",\"sequence_number\":%d," members "}\n\n"

/* The text of all deltas: the same words in each, and no stamp. */
static char *repeat_text(const char *text, long count)
{
    size_t bytes = strlen(text);
    char *all = malloc(bytes * (size_t)count + 1);
    if (!all)
        fail("out of memory");
    for (long i = 0; i < count; i++)
        memcpy(all + bytes * (size_t)i, text, bytes);
    all[bytes * (size_t)count] = 0;
    return all;
}

struct stream_texts make_response_stream(const struct upstream_options *options)
{
    struct stream_texts texts;
    char *words = make_content(options->chunk_bytes);
    memset(words, 'x', (size_t)options->chunk_bytes);
    char *all = repeat_text(words, options->chunks);
    int number = (int)options->chunks + 4;
    struct text begin = frame_chunk(print_text(
        EVENT("response.created", "\"response\":{" RESPONSE_FIELDS ",\"status\":\"in_progress\","
                                  "\"output\":[],\"usage\":null}")
        EVENT("response.in_progress", "\"response\":{" RESPONSE_FIELDS
                                      ",\"status\":\"in_progress\",\"output\":[],\"usage\":null}")
        EVENT("response.output_item.added", "\"output_index\":0,\"item\":" ITEM("in_progress", ""))
        EVENT("response.content_part.added", IN_PART ",\"part\":" PART),
        0, 1, 2, 3, ""));
    texts.begin = print_text(STREAM_HEAD "%s", begin.data);
    char *stamp = make_content(STAMP_BYTES);
    texts.chunk = frame_chunk(print_text(
        EVENT("response.output_text.delta",
              IN_PART ",\"delta\":\"%s\",\"logprobs\":[],\"obfuscation\":\"%s\""),
        4, words, stamp));
    struct text end = frame_chunk(print_text(
        EVENT("response.output_text.done", IN_PART ",\"text\":\"%s\",\"logprobs\":[]")
        EVENT("response.content_part.done", IN_PART ",\"part\":" PART)
        EVENT("response.output_item.done", "\"output_index\":0,\"item\":" ITEM("completed", PART))
        EVENT("response.completed",
              "\"response\":{" RESPONSE_FIELDS ",\"status\":\"completed\",\"output\":["
              ITEM("completed", PART) "],\"usage\":{\"input_tokens\":%d,\"input_tokens_details\":{"
              "\"cached_tokens\":0},\"output_tokens\":%ld,\"output_tokens_details\":{"
              "\"reasoning_tokens\":0},\"total_tokens\":%ld}" RESPONSE_END),
        number, all, number + 1, all, number + 2, all, number + 3, all, PROMPT_TOKENS,
        options->chunks, PROMPT_TOKENS + options->chunks));
    texts.end = print_text("%s0\r\n\r\n", end.data);
    free(begin.data);
    free(end.data);
    free(stamp);
    free(words);
    free(all);
    return texts;
}
