// SPDX-License-Identifier: Apache-2.0

#include "options.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void usage(const char *why)
{
	printf("{\"event\":\"error\",\"what\":\"usage: %s\"}\n", why);
	exit(EXIT_USAGE);
}

/* An IPv4 address becomes ::ffff:a.b.c.d. */
static bool parse_gid(const char *text, union ibv_gid *gid)
{
	if (strchr(text, ':'))
		return inet_pton(AF_INET6, text, gid) == 1;
	memset(gid, 0, sizeof *gid);
	gid->raw[10] = gid->raw[11] = 0xff;
	return inet_pton(AF_INET, text, gid->raw + 12) == 1;
}

static void parse_gids(const char *text, union ibv_gid *gids, int *n)
{
	if (*n == MAX_GROUPS || !parse_gid(text, &gids[*n]))
		usage("--to, --mgid: at most 64 addresses");
	++*n;
}

static void parse_second(char *text, struct options *o)
{
	char *gid;
	o->second_dev = strtok(text, ",");
	gid = strtok(NULL, ",");
	o->second_netdev = strtok(NULL, ",");
	if (!o->second_netdev || !parse_gid(gid, &o->second_ip))
		usage("--second DEV,GID,IF");
}

static void parse_sizes(char *text, struct options *o)
{
	o->sizes = 0;
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		unsigned long n = strtoul(word, NULL, 0);
		if (o->sizes == MAX_SIZES || n > MAX_PAYLOAD)
			usage("--size: at most 64 sizes of at most 4096 bytes");
		o->size[o->sizes++] = n;
	}
	if (!o->sizes)
		usage("--size");
}

static const struct option long_options[] = {
	{"ip", 1, 0, 'i'},      {"netdev", 1, 0, 'n'},
	{"dev", 1, 0, 'd'},     {"qkey", 1, 0, 'k'},
	{"to", 1, 0, 't'},      {"qpn", 1, 0, 'q'},
	{"mgid", 1, 0, 'm'},    {"imm", 1, 0, 'I'},
	{"size", 1, 0, 's'},    {"count", 1, 0, 'c'},
	{"tclass", 1, 0, 'T'},  {"hop", 1, 0, 'H'},
	{"seconds", 1, 0, 'S'}, {"gap", 1, 0, 'g'},
	{"seq", 1, 0, 'Q'},     {"dlid", 1, 0, 'D'},
	{"no-grh", 0, 0, 'G'},  {"bits", 1, 0, 'b'},
	{"sl", 1, 0, 'L'},      {"pkey-index", 1, 0, 'P'},
	{"second", 1, 0, '2'},  {0},
};

static void parse_number(int name, const char *text, struct options *o)
{
	uint32_t n = text ? strtoul(text, NULL, 0) : 0;
	switch (name) {
	case 'k':
		o->qkey = n;
		return;
	case 'q':
		o->qpn = n;
		return;
	case 'I':
		o->with_imm = true;
		o->imm = n;
		return;
	case 'c':
		o->count = n;
		return;
	case 'T':
		o->path.tclass = n;
		return;
	case 'H':
		o->path.hop_limit = n;
		return;
	case 'D':
		o->path.dlid = n;
		return;
	case 'G':
		o->path.without_grh = true;
		return;
	case 'b':
		o->path.source_bits = n;
		return;
	case 'L':
		o->path.sl = n;
		return;
	case 'P':
		o->pkey_index = n;
		return;
	case 'g':
		o->gap_ms = n;
		return;
	case 'Q':
		o->seq = n;
		return;
	}
	usage("unknown option");
}

static void parse_option(int name, char *text, struct options *o)
{
	switch (name) {
	case 'i':
		o->has_ip = parse_gid(text, &o->ip);
		return;
	case 't':
		parse_gids(text, o->to, &o->tos);
		return;
	case 'm':
		parse_gids(text, o->mgid, &o->mgids);
		return;
	case 'n':
		o->netdev = text;
		return;
	case 'd':
		o->dev = text;
		return;
	case '2':
		parse_second(text, o);
		return;
	case 's':
		parse_sizes(text, o);
		return;
	case 'S':
		o->seconds = atof(text);
		return;
	}
	parse_number(name, text, o);
}

struct options options_parse(int argc, char **argv)
{
	struct options o = {.qkey = 0x11111111,
			    .seq = 1,
			    .count = 1,
			    .path = {.hop_limit = 64},
			    .seconds = 10,
			    .size = {64},
			    .sizes = 1};
	int name;
	while ((name = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse_option(name, optarg, &o);
	if (!o.has_ip)
		usage("--ip ADDR is needed");
	if (optind != argc - 1)
		usage("one of recv, reply, send, pingpong, exchange, stream");
	o.mode = argv[optind];
	return o;
}
