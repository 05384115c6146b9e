/* What the upstream says where it speaks Messages (Anthropic, POST /v1/messages): one block of text, whose
 * deltas carry their stamps as those of a chat do. */
#include <stdlib.h>

#include "load.h"

#define EVENT(type, members) "event: " type "\ndata: {\"type\":\"" type "\"" members "}\n\n"

struct stream_texts make_message_stream(const struct upstream_options *options)
{
    struct stream_texts texts;
    struct text begin = frame_chunk(print_text(
        EVENT("message_start",
              ",\"message\":{\"id\":\"msg_load\",\"type\":\"message\",\"role\":\"assistant\","
              "\"model\":\"load-1\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
              "\"usage\":{\"input_tokens\":%d,\"cache_creation_input_tokens\":0,"
              "\"cache_read_input_tokens\":0,\"output_tokens\":1}}")
        EVENT("content_block_start",
              ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}") EVENT("ping", ""),
        PROMPT_TOKENS));
    texts.begin = print_text(STREAM_HEAD "%s", begin.data);
    char *content = make_content(options->chunk_bytes);
    texts.chunk = frame_chunk(print_text(
        EVENT("content_block_delta",
              ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}"),
        content));
    struct text end = frame_chunk(print_text(
        EVENT("content_block_stop", ",\"index\":0")
        EVENT("message_delta",
              ",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"
              "\"usage\":{\"output_tokens\":%ld}")
        "event: message_stop\ndata: " MESSAGE_END,
        options->chunks));
    texts.end = print_text("%s0\r\n\r\n", end.data);
    free(begin.data);
    free(end.data);
    free(content);
    return texts;
}
