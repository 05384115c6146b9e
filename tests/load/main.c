/* load: a cheap load generator for what stands between chats and their upstream.
 *
 *   load upstream [--port P] [--chunks N] [--rate R] [--chunk-bytes B] [--json-bytes B]
 *       [--api chat|responses|messages|gemini]
 *       An OpenAI-shaped upstream (upstream.c). Prints {"port":P} once it listens, and its counts when
 *       SIGTERM or SIGINT ends it. Port 0 (the default): any free one.
 *   load client --port P --mode json|stream --connections C --requests N | --seconds S
 *       [--rate R] [--messages M] [--model NAME] [--silence S]
 *       [--api chat|responses|messages|gemini]
 *       A client (client.c) of chats of M messages. Prints one JSON object. The model is NAME and the user of the n-th
 *       request, counted from 0, NAME-n.
 *
 * Both are one thread, talk to 127.0.0.1 only, and take each time from CLOCK_MONOTONIC, which is the same
 * for all processes of a machine. Exit status: 0, 1 where the tool failed, 2 where it was called wrongly.
 *
 * Build: cc -std=c11 -D_GNU_SOURCE -O2 -o load *.c
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define MAX_CONTENT_BYTES (64L << 20)
#define MAX_MODEL_BYTES 64
#define MAX_MESSAGES 100000

static _Noreturn void refuse(const char *name, const char *value)
{
    fprintf(stderr, "load: --%s %s: not possible; main.c says what is\n", name, value);
    exit(2);
}

static double parse_real(const char *name, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= 1e9))
        refuse(name, text);
    return value;
}

static long parse_whole(const char *name, const char *text, long least, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most)
        refuse(name, text);
    return value;
}

static enum api parse_api(const char *text)
{
    static const char *const names[] = {
        [CHAT] = "chat", [RESPONSES] = "responses", [MESSAGES] = "messages", [GEMINI] = "gemini"};
    for (size_t api = 0; api < sizeof names / sizeof *names; api++)
        if (!strcmp(text, names[api]))
            return (enum api)api;
    refuse("api", text);
}

/* No more than what needs no escape in JSON. */
static const char *parse_model(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (!*text || strlen(text) > MAX_MODEL_BYTES || text[strspn(text, allowed)])
        refuse("model", text);
    return text;
}

static int parse_upstream(int argc, char **argv)
{
    enum { PORT, CHUNKS, RATE, CHUNK_BYTES, JSON_BYTES, API };
    static const struct option names[] = {{"port", 1, NULL, PORT},
                                          {"chunks", 1, NULL, CHUNKS},
                                          {"rate", 1, NULL, RATE},
                                          {"chunk-bytes", 1, NULL, CHUNK_BYTES},
                                          {"json-bytes", 1, NULL, JSON_BYTES},
                                          {"api", 1, NULL, API},
                                          {0}};
    struct upstream_options options = {.chunks = 200, .chunk_bytes = 32, .json_bytes = 256};
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        if (option == PORT)
            options.port = (int)parse_whole("port", optarg, 0, 65535);
        else if (option == CHUNKS)
            options.chunks = parse_whole("chunks", optarg, 0, INT32_MAX);
        else if (option == RATE)
            options.rate = parse_real("rate", optarg);
        else if (option == CHUNK_BYTES)
            options.chunk_bytes = parse_whole("chunk-bytes", optarg, STAMP_BYTES, MAX_CONTENT_BYTES);
        else if (option == JSON_BYTES)
            options.json_bytes = parse_whole("json-bytes", optarg, STAMP_BYTES, MAX_CONTENT_BYTES);
        else if (option == API)
            options.api = parse_api(optarg);
        else
            return 2;
    }
    return run_upstream(&options);
}

static int parse_client(int argc, char **argv)
{
    enum { PORT, MODE, CONNECTIONS, REQUESTS, SECONDS, RATE, MESSAGES, MODEL, SILENCE, API };
    static const struct option names[] = {{"port", 1, NULL, PORT},
                                          {"mode", 1, NULL, MODE},
                                          {"connections", 1, NULL, CONNECTIONS},
                                          {"requests", 1, NULL, REQUESTS},
                                          {"seconds", 1, NULL, SECONDS},
                                          {"rate", 1, NULL, RATE},
                                          {"messages", 1, NULL, MESSAGES},
                                          {"model", 1, NULL, MODEL},
                                          {"silence", 1, NULL, SILENCE},
                                          {"api", 1, NULL, API},
                                          {0}};
    struct client_options options = {
        .connections = 1, .messages = 2, .silence_seconds = 30, .model = "load"};
    const char *mode = "";
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
        if (option == PORT)
            options.port = (int)parse_whole("port", optarg, 1, 65535);
        else if (option == MODE)
            mode = optarg;
        else if (option == CONNECTIONS)
            options.connections = parse_whole("connections", optarg, 1, 1000000);
        else if (option == REQUESTS)
            options.requests = parse_whole("requests", optarg, 1, INT32_MAX);
        else if (option == SECONDS)
            options.seconds = parse_real("seconds", optarg);
        else if (option == RATE)
            options.rate = parse_real("rate", optarg);
        else if (option == MESSAGES)
            options.messages = parse_whole("messages", optarg, 1, MAX_MESSAGES);
        else if (option == MODEL)
            options.model = parse_model(optarg);
        else if (option == SILENCE)
            options.silence_seconds = parse_real("silence", optarg);
        else if (option == API)
            options.api = parse_api(optarg);
        else
            return 2;
    }
    options.is_stream = !strcmp(mode, "stream");
    if (!options.is_stream && strcmp(mode, "json"))
        refuse("mode", mode);
    if (!options.port)
        refuse("port", "(none)");
    if (!options.requests && !(options.seconds > 0))
        refuse("requests", "(none)");
    return run_client(&options);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "upstream"))
        return parse_upstream(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "client"))
        return parse_client(argc - 1, argv + 1);
    fprintf(stderr, "load: `load upstream` or `load client`; main.c says more\n");
    return 2;
}
