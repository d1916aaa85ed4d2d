/*
 * One end of a comparison with usrsctp, a process of its own:
 *
 *   peer server UDP_PORT                              discards what one association brings
 *   peer client UDP_PORT PEER_UDP_PORT BYTES SECONDS  sends messages of BYTES for SECONDS
 *   peer idle COUNT                                   memory of idle associations, in memory
 *   peer paths-server UDP_PORT WARM SECONDS           counts for SECONDS, beginning WARM after the first message
 *   peer paths-client UDP_PORT PEER_UDP_PORT PEER_ADDRESS BYTES SECONDS CMT SPLITTING
 *                                                     sends over all paths, with these sysctls
 *
 * Each prints one JSON object on a line when it has something to tell. The library's debugging
 * output is off: it is given no function to print with.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

enum {
	SCTP_PORT = 5001,
	BUFFER_BYTES = 256 * 1024,
	PATHS_BUFFER_BYTES = 1024 * 1024,
	/* What an IP packet of 1500 bytes leaves under the headers of IP, UDP and SCTP. */
	CHUNK_BYTES = 1500 - 20 - 8 - 12,
	STREAMS = 128
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ended;
static double cpu_at_start = -1;
static unsigned long long received_bytes;
/* When received_bytes counts: everything, unless a server says otherwise. */
static double counts_after, counts_for = -1, first_arrival = -1;

static void
die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static double
cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double
clock_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
end(void)
{
	pthread_mutex_lock(&lock);
	ended = 1;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static int
counts_now(void)
{
	double since;

	if (counts_for < 0)
		return 1;
	if (first_arrival < 0)
		first_arrival = clock_seconds();
	since = clock_seconds() - first_arrival - counts_after;
	return since >= 0 && since < counts_for;
}

static void
wait_for_end(void)
{
	pthread_mutex_lock(&lock);
	while (!ended)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* Data, a notification, or (data == NULL) the end of the association. */
static int
receive(struct socket *socket, union sctp_sockstore from, void *data, size_t length,
    struct sctp_rcvinfo info, int flags, void *user)
{
	(void)from;
	(void)info;
	(void)user;
	if (data == NULL) {
		usrsctp_close(socket);
		end();
		return 1;
	}
	if (!(flags & MSG_NOTIFICATION)) {
		if (cpu_at_start < 0)
			cpu_at_start = cpu_seconds();
		if (counts_now())
			received_bytes += length;
	}
	free(data);
	return 1;
}

static void
set(struct socket *socket, int option, const void *value, socklen_t length, const char *what)
{
	if (usrsctp_setsockopt(socket, IPPROTO_SCTP, option, value, length) < 0)
		die(what);
}

/* What both ends have: path MTU, no Nagle, the peer's encapsulation port. */
static void
configure(struct socket *socket, int peer_udp_port)
{
	struct sctp_paddrparams path;
	struct sctp_udpencaps encapsulation;
	struct sctp_initmsg init;
	int on = 1;

	memset(&init, 0, sizeof(init));
	init.sinit_num_ostreams = STREAMS;
	init.sinit_max_instreams = STREAMS;
	set(socket, SCTP_INITMSG, &init, sizeof(init), "SCTP_INITMSG");
	set(socket, SCTP_NODELAY, &on, sizeof(on), "SCTP_NODELAY");
	memset(&path, 0, sizeof(path));
	path.spp_address.ss_family = AF_INET;
	path.spp_flags = SPP_PMTUD_DISABLE;
	path.spp_pathmtu = CHUNK_BYTES;
	set(socket, SCTP_PEER_ADDR_PARAMS, &path, sizeof(path), "SCTP_PEER_ADDR_PARAMS");
	if (peer_udp_port == 0)
		return;
	memset(&encapsulation, 0, sizeof(encapsulation));
	encapsulation.sue_address.ss_family = AF_INET;
	encapsulation.sue_port = htons((uint16_t)peer_udp_port);
	set(socket, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof(encapsulation),
	    "SCTP_REMOTE_UDP_ENCAPS_PORT");
}

static void
begin(int udp_port, int buffer_bytes)
{
	usrsctp_init((uint16_t)udp_port, NULL, NULL);
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
	usrsctp_sysctl_set_sctp_sendspace(buffer_bytes);
	usrsctp_sysctl_set_sctp_recvspace(buffer_bytes);
	usrsctp_sysctl_set_sctp_blackhole(2);
}

static struct sockaddr_in
at(in_addr_t ip)
{
	struct sockaddr_in address;

	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_port = htons(SCTP_PORT);
	address.sin_addr.s_addr = ip;
	return address;
}

static void
server(int udp_port, struct sockaddr_in address, int buffer_bytes)
{
	struct socket *listener, *socket;

	begin(udp_port, buffer_bytes);
	listener = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, receive, NULL, 0, NULL);
	if (listener == NULL)
		die("usrsctp_socket");
	configure(listener, 0);
	if (usrsctp_bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("usrsctp_bind");
	if (usrsctp_listen(listener, 1) < 0)
		die("usrsctp_listen");
	printf("{\"udp_port\":%d}\n", udp_port);
	fflush(stdout);
	socket = usrsctp_accept(listener, NULL, NULL);
	if (socket == NULL)
		die("usrsctp_accept");
	wait_for_end();
	printf("{\"bytes\":%llu,\"cpu_seconds\":%.6f}\n", received_bytes,
	    cpu_seconds() - (cpu_at_start < 0 ? 0 : cpu_at_start));
	fflush(stdout);
}

/* The library has been told its settings. */
static void
client(int peer_udp_port, struct sockaddr_in address, size_t bytes, double seconds)
{
	struct sctp_sndinfo info;
	struct socket *socket;
	unsigned long long sent = 0;
	double cpu, begun, took;
	struct sctp_recvv_rn received;
	struct sockaddr_in from;
	socklen_t from_length, info_length;
	unsigned int info_type;
	char *message, rest[256];
	int flags;

	socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (socket == NULL)
		die("usrsctp_socket");
	configure(socket, peer_udp_port);
	if (usrsctp_connect(socket, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("usrsctp_connect");
	message = calloc(1, bytes);
	if (message == NULL)
		die("calloc");
	memset(&info, 0, sizeof(info));
	cpu = cpu_seconds();
	begun = clock_seconds();
	do {
		/* So many between looks at the clock cost nothing of account. */
		for (int count = 0; count < 64; count++) {
			if (usrsctp_sendv(socket, message, bytes, NULL, 0, &info, sizeof(info),
			    SCTP_SENDV_SNDINFO, 0) < 0)
				die("usrsctp_sendv");
			sent += bytes;
		}
	} while (clock_seconds() - begun < seconds);
	if (usrsctp_shutdown(socket, SHUT_WR) < 0)
		die("usrsctp_shutdown");
	/* Without a callback sending blocks; what can be received then is the end. */
	do {
		from_length = sizeof(from);
		info_length = sizeof(received);
		flags = 0;
	} while (usrsctp_recvv(socket, rest, sizeof(rest), (struct sockaddr *)&from, &from_length,
	    &received, &info_length, &info_type, &flags) > 0);
	took = clock_seconds() - begun;
	printf("{\"bytes\":%llu,\"seconds\":%.6f,\"cpu_seconds\":%.6f}\n", sent, took,
	    cpu_seconds() - cpu);
	fflush(stdout);
	free(message);
}

/* --- Idle associations in memory --- */

struct packet {
	struct packet *next;
	size_t length;
	char bytes[];
};

static struct packet *first_packet, **last_packet = &first_packet;

/* Both ends are at the same "address": a packet goes back in when the library is done with it. */
static int
output(void *address, void *bytes, size_t length, uint8_t tos, uint8_t set_df)
{
	struct packet *packet = malloc(sizeof(*packet) + length);

	(void)address;
	(void)tos;
	(void)set_df;
	if (packet == NULL)
		return ENOMEM;
	packet->next = NULL;
	packet->length = length;
	memcpy(packet->bytes, bytes, length);
	pthread_mutex_lock(&lock);
	*last_packet = packet;
	last_packet = &packet->next;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void
deliver(void *address)
{
	for (;;) {
		struct packet *packet;

		pthread_mutex_lock(&lock);
		packet = first_packet;
		if (packet != NULL) {
			first_packet = packet->next;
			if (first_packet == NULL)
				last_packet = &first_packet;
		}
		pthread_mutex_unlock(&lock);
		if (packet == NULL)
			return;
		usrsctp_conninput(address, packet->bytes, packet->length, 0);
		free(packet);
	}
}

static unsigned long
proportional_set_size(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kibibytes = 0;
	char line[256];

	if (file == NULL)
		die("/proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "Pss: %lu kB", &kibibytes) == 1)
			break;
	fclose(file);
	return kibibytes * 1024;
}

static void
idle(int count)
{
	static char address;
	struct sockaddr_conn name;
	struct socket *listener;
	unsigned long before;

	usrsctp_init(0, output, NULL);
	usrsctp_sysctl_set_sctp_blackhole(2);
	usrsctp_register_address(&address);
	memset(&name, 0, sizeof(name));
	name.sconn_family = AF_CONN;
	name.sconn_port = htons(SCTP_PORT);
	name.sconn_addr = &address;
	listener = usrsctp_socket(AF_CONN, SOCK_SEQPACKET, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (listener == NULL)
		die("usrsctp_socket");
	if (usrsctp_bind(listener, (struct sockaddr *)&name, sizeof(name)) < 0)
		die("usrsctp_bind");
	if (usrsctp_listen(listener, 1) < 0)
		die("usrsctp_listen");
	before = proportional_set_size();
	for (int number = 0; number < count; number++) {
		struct socket *socket;

		socket = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
		if (socket == NULL)
			die("usrsctp_socket");
		usrsctp_set_non_blocking(socket, 1);
		if (usrsctp_connect(socket, (struct sockaddr *)&name, sizeof(name)) < 0 &&
		    errno != EINPROGRESS)
			die("usrsctp_connect");
		deliver(&address);
	}
	printf("{\"associations\":%d,\"bytes\":%lu}\n", 2 * count, proportional_set_size() - before);
	fflush(stdout);
	/* Ending them one by one takes long, and nothing of it is measured. */
	_exit(0);
}

int
main(int count, char *arguments[])
{
	if (count == 3 && strcmp(arguments[1], "server") == 0)
		server(atoi(arguments[2]), at(htonl(INADDR_LOOPBACK)), BUFFER_BYTES);
	else if (count == 6 && strcmp(arguments[1], "client") == 0) {
		begin(atoi(arguments[2]), BUFFER_BYTES);
		client(atoi(arguments[3]), at(htonl(INADDR_LOOPBACK)), strtoul(arguments[4], NULL, 10),
		    strtod(arguments[5], NULL));
	} else if (count == 5 && strcmp(arguments[1], "paths-server") == 0) {
		counts_after = strtod(arguments[3], NULL);
		counts_for = strtod(arguments[4], NULL);
		server(atoi(arguments[2]), at(htonl(INADDR_ANY)), PATHS_BUFFER_BYTES);
	} else if (count == 9 && strcmp(arguments[1], "paths-client") == 0) {
		begin(atoi(arguments[2]), PATHS_BUFFER_BYTES);
		usrsctp_sysctl_set_sctp_cmt_on_off(strtoul(arguments[7], NULL, 10));
		usrsctp_sysctl_set_sctp_buffer_splitting(strtoul(arguments[8], NULL, 10));
		client(atoi(arguments[3]), at(inet_addr(arguments[4])), strtoul(arguments[5], NULL, 10),
		    strtod(arguments[6], NULL));
	} else if (count == 3 && strcmp(arguments[1], "idle") == 0)
		idle(atoi(arguments[2]));
	else {
		fprintf(stderr, "usage: peer server|client|idle ...\n");
		return 2;
	}
	/* The library's threads need not be told. */
	_exit(0);
}
