/* One end of an association on usrsctp, with several addresses, for the tests.
 *
 *   peer sink UDP_PORT PORT ADDRESSES                       takes one association; tells what came when it ends
 *   peer send UDP_PORT PORT ADDRESSES BYTES SIZE FROM PEER_UDP_PORT
 *                                                           sends BYTES of a pattern in messages of SIZE, shuts down
 *
 * UDP_PORT 0 is SCTP right over IP. ADDRESSES, with commas, are this end's for sink and the other end's for send; FROM
 * are this end's. What is sent and what came is told as a number of bytes and an FNV-1a hash of them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <usrsctp.h>

#define MOST_ADDRESSES 4

static char message[1 << 16];

static void fail(const char *what)
{
	printf("failed: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int parse(const char *list, uint16_t port, struct sockaddr_in *addresses)
{
	char *copy = strdup(list), *rest = copy, *one;
	int count = 0;

	while ((one = strsep(&rest, ",")) && count < MOST_ADDRESSES) {
		struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

		if (inet_pton(AF_INET, one, &address.sin_addr) != 1)
			fail(one);
		addresses[count++] = address;
	}
	free(copy);
	return count;
}

static uint64_t hashed(uint64_t hash, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
	return hash;
}

static const uint64_t HASH_OF_NOTHING = 0xcbf29ce484222325ULL;

static void set(struct socket *socket, int option, const void *value, socklen_t length)
{
	if (usrsctp_setsockopt(socket, IPPROTO_SCTP, option, value, length) < 0)
		fail("setsockopt");
}

/* Quick to find out that a path is dead. */
static struct socket *open_socket(const char *list, uint16_t port)
{
	struct sockaddr_in local[MOST_ADDRESSES];
	int on = 1, count = parse(list, port, local);
	struct sctp_rtoinfo rto = { .srto_initial = 500, .srto_min = 300, .srto_max = 1000 };
	struct sctp_paddrparams paths = { .spp_pathmaxrxt = 2 };
	struct socket *socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);

	if (!socket)
		fail("socket");
	paths.spp_address.ss_family = AF_INET;
	set(socket, SCTP_NODELAY, &on, sizeof on);
	set(socket, SCTP_RTOINFO, &rto, sizeof rto);
	set(socket, SCTP_PEER_ADDR_PARAMS, &paths, sizeof paths);
	if (usrsctp_bindx(socket, (struct sockaddr *)local, count, SCTP_BINDX_ADD_ADDR) < 0)
		fail("bind");
	return socket;
}

static ssize_t receive(struct socket *socket)
{
	struct sctp_rcvinfo info;
	socklen_t room = sizeof info;
	unsigned type;
	int flags = 0;

	return usrsctp_recvv(socket, message, sizeof message, NULL, NULL, &info, &room, &type, &flags);
}

static int sink(uint16_t port, const char *list)
{
	struct socket *listener = open_socket(list, port), *socket;
	uint64_t bytes = 0, hash = HASH_OF_NOTHING;
	ssize_t length;

	if (usrsctp_listen(listener, 1) < 0)
		fail("listen");
	printf("listening\n");
	socket = usrsctp_accept(listener, NULL, NULL);
	if (!socket)
		fail("accept");
	while ((length = receive(socket)) > 0) {
		bytes += length;
		hash = hashed(hash, message, length);
	}
	printf("%s %llu bytes, hash %016llx\n", length == 0 ? "received" : "lost after",
	       (unsigned long long)bytes, (unsigned long long)hash);
	usrsctp_close(socket);
	usrsctp_close(listener);
	return length == 0 ? 0 : 1;
}

static int send_pattern(uint16_t port, const char *list, uint64_t bytes, size_t size, const char *from, uint16_t udp)
{
	struct sockaddr_in remote[MOST_ADDRESSES];
	int count = parse(list, port, remote);
	struct socket *socket = open_socket(from, 0);
	uint64_t sent = 0, hash = HASH_OF_NOTHING;
	uint32_t state = 1;

	if (size == 0 || size > sizeof message)
		fail("the size of messages");
	if (udp) {
		struct sctp_udpencaps encapsulation = { .sue_port = htons(udp) };

		encapsulation.sue_address.ss_family = AF_INET;
		set(socket, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof encapsulation);
	}
	if (usrsctp_connectx(socket, (struct sockaddr *)remote, count, NULL) < 0)
		fail("connect");
	while (sent < bytes) {
		size_t length = bytes - sent < size ? bytes - sent : size;

		for (size_t i = 0; i < length; i++) {
			state = state * 1664525 + 1013904223;
			message[i] = state >> 24;
		}
		if (usrsctp_sendv(socket, message, length, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) < 0)
			fail("send");
		hash = hashed(hash, message, length);
		sent += length;
	}
	printf("sent %llu bytes, hash %016llx\n", (unsigned long long)sent, (unsigned long long)hash);
	if (usrsctp_shutdown(socket, SHUT_WR) < 0)
		fail("shutdown");
	/* Nothing comes: this waits for the end. */
	while (receive(socket) > 0)
		;
	usrsctp_close(socket);
	return 0;
}

int main(int count, char **arguments)
{
	int result = 2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count > 2) {
		usrsctp_init(atoi(arguments[2]), NULL, NULL);
		usrsctp_sysctl_set_sctp_ecn_enable(0);
	}
	if (count == 5 && !strcmp(arguments[1], "sink"))
		result = sink(atoi(arguments[3]), arguments[4]);
	else if (count == 9 && !strcmp(arguments[1], "send"))
		result = send_pattern(atoi(arguments[3]), arguments[4], strtoull(arguments[5], NULL, 10),
				      strtoul(arguments[6], NULL, 10), arguments[7], atoi(arguments[8]));
	else
		fprintf(stderr, "usage: see the top of peer.c\n");
	/* The library refuses to end while an association of it does. */
	for (int patience = 200; patience > 0 && usrsctp_finish() != 0; patience--)
		usleep(50000);
	/* Its threads may run on while exit() takes down what they use. */
	fflush(stdout);
	_exit(result);
}
