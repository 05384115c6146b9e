/* What the upstream says where it speaks Gemini (Google, POST …:streamGenerateContent?alt=sse): chunks with
 * one text each, whose counts run. Their stamps are those of a chat's chunks. */
#include <stdlib.h>

#include "load.h"

#define CHUNK(candidate)                                                                           \
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"%s\"}],\"role\":\"model\"},"        \
    "\"index\":0" candidate "}],\"usageMetadata\":{\"promptTokenCount\":%d,"                        \
    "\"candidatesTokenCount\":%ld,\"totalTokenCount\":%ld,\"promptTokensDetails\":"                 \
    "[{\"modality\":\"TEXT\",\"tokenCount\":%d}]},\"modelVersion\":\"load-1\","                     \
    "\"responseId\":\"load\"}\r\n\r\n"

struct stream_texts make_gemini_stream(const struct upstream_options *options)
{
    struct stream_texts texts;
    long chunks = options->chunks;
    texts.begin = print_text(STREAM_HEAD);
    char *content = make_content(options->chunk_bytes);
    texts.chunk = frame_chunk(print_text(CHUNK(""), content, PROMPT_TOKENS, chunks,
                                         PROMPT_TOKENS + chunks, PROMPT_TOKENS));
    struct text end = frame_chunk(print_text(CHUNK(",\"finishReason\":\"STOP\""), "", PROMPT_TOKENS,
                                             chunks, PROMPT_TOKENS + chunks, PROMPT_TOKENS));
    texts.end = print_text("%s0\r\n\r\n", end.data);
    free(end.data);
    free(content);
    return texts;
}
