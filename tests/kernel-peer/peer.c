/* One end of an association on the Linux kernel's SCTP sockets, for the tests: sends, takes in, sends back.
 *
 *   peer sink  PORT ADDRESSES            takes one association; tells what came when it ends
 *   peer echo  PORT ADDRESSES            sends every message back on its stream, for ever
 *   peer send  PORT ADDRESSES BYTES SIZE sends BYTES of a pattern in messages of SIZE, then shuts down
 *   peer abort PORT ADDRESSES            sends one message, and aborts when it is told to: by a line on standard input
 *   peer talk  PORT ADDRESSES TEXT       sends TEXT, prints the answer, shuts down
 *   peer console                         does what it is told by lines on standard input, see console.c
 *
 * ADDRESSES, with commas, are this end's for sink and echo, and the other end's for the rest. ENCAPSULATION=PORT in
 * the environment has send, abort and talk go over UDP to that port (RFC 6951); FROM=ADDRESSES and FROM_PORT=PORT
 * bind them.
 * What is sent and what came is told as a number of bytes and an FNV-1a hash of them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sctp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

#define MOST_MESSAGE (1 << 20)

static char message[MOST_MESSAGE];

static void fail(const char *what)
{
	printf("failed: %s: %s\n", what, strerror(errno));
	exit(1);
}

struct addresses parse(const char *list, uint16_t port)
{
	struct addresses all = { .family = AF_INET };
	char *copy = strdup(list), *rest = copy, *one;

	while ((one = strsep(&rest, ",")) && all.count < MOST_ADDRESSES) {
		struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
		struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

		if (inet_pton(AF_INET, one, &v4.sin_addr) == 1) {
			memcpy(all.packed + all.length, &v4, sizeof v4);
			all.length += sizeof v4;
		} else if (inet_pton(AF_INET6, one, &v6.sin6_addr) == 1) {
			memcpy(all.packed + all.length, &v6, sizeof v6);
			all.length += sizeof v6;
			all.family = AF_INET6;
		} else {
			printf("failed: not an address: %s\n", one);
			exit(2);
		}
		all.count++;
	}
	free(copy);
	return all;
}

uint64_t hashed(uint64_t hash, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
	return hash;
}

void fill(char *bytes, size_t length, uint32_t *state)
{
	for (size_t i = 0; i < length; i++) {
		*state = *state * 1664525 + 1013904223;
		bytes[i] = *state >> 24;
	}
}

static int open_socket(const struct addresses *bound)
{
	int on = 1, room = 1 << 20;
	struct sctp_event_subscribe events = { .sctp_data_io_event = 1 };
	struct sctp_initmsg streams = { .sinit_num_ostreams = 16, .sinit_max_instreams = 64 };
	int fd = socket(bound->family, SOCK_STREAM, IPPROTO_SCTP);

	if (fd < 0)
		fail("socket");
	setsockopt(fd, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams) < 0)
		fail("SCTP_INITMSG");
	if (setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) < 0)
		fail("SCTP_EVENTS");
	return fd;
}

static void bind_to(int fd, struct addresses *local)
{
	if (setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, local->packed, local->length) < 0)
		fail("bind");
}

static int listening(uint16_t port, const char *list)
{
	struct addresses local = parse(list, port);
	int fd = open_socket(&local);

	bind_to(fd, &local);
	if (listen(fd, 100) < 0)
		fail("listen");
	printf("listening\n");
	fflush(stdout);
	return fd;
}

static int connected(uint16_t port, const char *list)
{
	struct addresses remote = parse(list, port);
	const char *encapsulation = getenv("ENCAPSULATION"), *from = getenv("FROM"), *from_port = getenv("FROM_PORT");
	int fd = open_socket(&remote);

	if (from) {
		struct addresses local = parse(from, from_port ? atoi(from_port) : 0);

		bind_to(fd, &local);
	}
	if (encapsulation) {
		struct sctp_udpencaps udp = { .sue_port = htons(atoi(encapsulation)) };

		udp.sue_address.ss_family = remote.family;
		if (setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &udp, sizeof udp) < 0)
			fail("SCTP_REMOTE_UDP_ENCAPS_PORT");
	}
	if (setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, remote.packed, remote.length) < 0)
		fail("connect");
	return fd;
}

/* Sends a message on a stream with a payload protocol identifier. */
static int send_on(int fd, const char *bytes, size_t length, uint16_t stream, uint32_t ppid, uint16_t flags)
{
	char control[CMSG_SPACE(sizeof(struct sctp_sndrcvinfo))] = { 0 };
	struct iovec part = { (void *)bytes, length };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
	struct sctp_sndrcvinfo info = { .sinfo_stream = stream, .sinfo_ppid = ppid, .sinfo_flags = flags };

	cmsg->cmsg_level = IPPROTO_SCTP;
	cmsg->cmsg_type = SCTP_SNDRCV;
	cmsg->cmsg_len = CMSG_LEN(sizeof info);
	memcpy(CMSG_DATA(cmsg), &info, sizeof info);
	return sendmsg(fd, &header, MSG_NOSIGNAL);
}

/* One whole message into `message`; its length, 0 at the end, -1 when the association is lost. */
static ssize_t receive(int fd, struct sctp_sndrcvinfo *info)
{
	size_t got = 0;

	for (;;) {
		char control[CMSG_SPACE(sizeof *info)];
		struct iovec part = { message + got, sizeof message - got };
		struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
		ssize_t length = recvmsg(fd, &header, 0);
		struct cmsghdr *cmsg;

		if (length <= 0)
			return length;
		for (cmsg = CMSG_FIRSTHDR(&header); cmsg; cmsg = CMSG_NXTHDR(&header, cmsg))
			if (cmsg->cmsg_level == IPPROTO_SCTP && cmsg->cmsg_type == SCTP_SNDRCV)
				memcpy(info, CMSG_DATA(cmsg), sizeof *info);
		got += length;
		if ((header.msg_flags & MSG_EOR) || got == sizeof message)
			return got;
	}
}

/* Takes everything in until the association ends; tells what it was. */
static int take_in(int fd)
{
	struct sctp_sndrcvinfo info = { 0 };
	uint64_t bytes = 0, messages = 0, hash = HASH_OF_NOTHING;
	ssize_t length;

	while ((length = receive(fd, &info)) > 0) {
		bytes += length;
		messages++;
		hash = hashed(hash, message, length);
		if (messages == 1) {
			printf("first %zd bytes on stream %u\n", length, info.sinfo_stream);
			fflush(stdout);
		}
	}
	printf("%s %llu bytes in %llu messages, hash %016llx%s%s\n", length == 0 ? "received" : "lost after",
	       (unsigned long long)bytes, (unsigned long long)messages, (unsigned long long)hash,
	       length == 0 ? "" : ": ", length == 0 ? "" : strerror(errno));
	return length == 0 ? 0 : 1;
}

static int sink(uint16_t port, const char *list)
{
	int fd = accept(listening(port, list), NULL, NULL);

	if (fd < 0)
		fail("accept");
	return take_in(fd);
}

static int echo(uint16_t port, const char *list)
{
	int listener = listening(port, list);

	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			fail("accept");
		if (fork() == 0) {
			struct sctp_sndrcvinfo info = { 0 };
			ssize_t length;

			while ((length = receive(fd, &info)) > 0)
				if (send_on(fd, message, length, info.sinfo_stream, info.sinfo_ppid,
					    info.sinfo_flags & SCTP_UNORDERED) < 0)
					break;
			_exit(0);
		}
		close(fd);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

/* Waits until the shutdown is over, so that the exit status can tell how it went. */
static int end(int fd)
{
	struct sctp_sndrcvinfo info;
	ssize_t length;

	if (shutdown(fd, SHUT_WR) < 0)
		fail("shutdown()");
	while ((length = receive(fd, &info)) > 0)
		;
	/* The kernel says ENOTCONN to whoever has shut down and finds the association gone. */
	if (length < 0 && errno != ENOTCONN)
		fail("the shutdown");
	close(fd);
	printf("shut down\n");
	return 0;
}

static int send_pattern(uint16_t port, const char *list, uint64_t bytes, size_t size)
{
	int fd = connected(port, list);
	uint64_t sent = 0, hash = HASH_OF_NOTHING;
	uint32_t state = 1;

	if (size == 0 || size > sizeof message) {
		printf("failed: messages have 1 to %zu bytes\n", sizeof message);
		return 2;
	}
	while (sent < bytes) {
		size_t length = bytes - sent < size ? bytes - sent : size;

		fill(message, length, &state);
		if (send_on(fd, message, length, 0, htonl(7), 0) < 0)
			fail("send");
		hash = hashed(hash, message, length);
		sent += length;
	}
	printf("sent %llu bytes, hash %016llx\n", (unsigned long long)sent, (unsigned long long)hash);
	fflush(stdout);
	return end(fd);
}

static int abort_it(uint16_t port, const char *list)
{
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	int fd = connected(port, list), next;

	if (send_on(fd, "soon gone", 9, 0, 0, 0) < 0)
		fail("send");
	printf("sent\n");
	do
		next = getchar();
	while (next != '\n' && next != EOF);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	close(fd);
	printf("aborted\n");
	return 0;
}

static int talk(uint16_t port, const char *list, const char *text)
{
	struct sctp_sndrcvinfo info;
	int fd = connected(port, list);
	ssize_t length;

	if (send_on(fd, text, strlen(text), 3, htonl(42), SCTP_UNORDERED) < 0)
		fail("send");
	length = receive(fd, &info);
	if (length <= 0)
		fail("receive");
	printf("answer on stream %u, ppid %u%s: %.*s\n", info.sinfo_stream, ntohl(info.sinfo_ppid),
	       info.sinfo_flags & SCTP_UNORDERED ? ", unordered" : "", (int)length, message);
	return end(fd);
}

int main(int count, char **arguments)
{
	const char *what = count > 3 ? arguments[1] : "";
	uint16_t port = count > 3 ? atoi(arguments[2]) : 0;
	const char *list = count > 3 ? arguments[3] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count == 2 && !strcmp(arguments[1], "console"))
		return console();
	if (!strcmp(what, "sink"))
		return sink(port, list);
	if (!strcmp(what, "echo"))
		return echo(port, list);
	if (!strcmp(what, "send") && count > 5)
		return send_pattern(port, list, strtoull(arguments[4], NULL, 10), strtoul(arguments[5], NULL, 10));
	if (!strcmp(what, "abort"))
		return abort_it(port, list);
	if (!strcmp(what, "talk") && count > 4)
		return talk(port, list, arguments[4]);
	fprintf(stderr, "usage: peer sink|echo|send|abort|talk PORT ADDRESSES [...], or peer console\n");
	return 2;
}
