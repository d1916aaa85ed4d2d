/* One end of an association on usrsctp, for tests: commands come on standard input, a line each.
 *
 *   usrsctp-peer EXTENSIONS STREAMS [ADDRESSES]
 *
 * EXTENSIONS, with commas, are pr, auth, asconf, reconf, idata and nrsack; STREAMS are the outbound streams that are asked for.
 * ADDRESSES are the IPv4 addresses of its host, of which it is bound to the first one; without them it has none.
 * Packets go in and out as lines, and the clock is what the test says. Commands:
 *
 *   listen | connect ADDRESS                 waits for an association, or begins one; - where there are no addresses
 *   time MILLISECONDS                        lets time go by
 *   packet FROM TO HEX                       a packet has come; - where there are no addresses
 *   send STREAM FLAGS POLICY VALUE HEX       FLAGS: u is unordered, - is none. POLICY: none, ttl, buf or rtx with VALUE
 *   reset FLAGS STREAMS                      FLAGS: 1 incoming, 2 outgoing, 3 both. STREAMS, with commas, - is all
 *   reset-association
 *   add OUTGOING INCOMING                    asks for more streams
 *   add-address ADDRESS | delete-address ADDRESS | peer-primary ADDRESS
 *                                            changes its own addresses, or asks to be sent to one
 *   supported                                what both sides have agreed on
 *   chunk TYPE                               chunks of this type have to be authenticated (before listen and connect)
 *   hmacs IDENTIFIERS                        with commas, the preferred one first (before listen and connect)
 *   key NUMBER HEX | active-key NUMBER | deactivate-key NUMBER | delete-key NUMBER
 *
 * Each is answered by lines that tell what happened, and one that ends them: ok, or error and why. Lines that tell:
 *
 *   packet FROM TO HEX
 *   message STREAM SSN FLAGS HEX             FLAGS: u is unordered, p is a part that is not the last, - is none
 *   event NAME ...
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <usrsctp.h>

/* The header of Debian's package leaves it out. */
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206

#define PORT 5000
#define BUFFER (1 << 20)
#define TICK 10

/* Those of a host, and those of an endpoint. */
#define MOST_ADDRESSES 4

static struct socket *listener, *connection;
static struct sockaddr_in host[MOST_ADDRESSES];
static size_t host_addresses;
static char received[BUFFER];
static uint64_t milliseconds = 1000000000000;

/* The library takes its time from here. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	(void)zone;
	now->tv_sec = milliseconds / 1000;
	now->tv_usec = milliseconds % 1000 * 1000;
	return 0;
}

static void put_hex(const void *bytes, size_t length)
{
	const unsigned char *next = bytes;

	while (length--) {
		putchar("0123456789abcdef"[*next >> 4]);
		putchar("0123456789abcdef"[*next++ & 15]);
	}
	putchar('\n');
}

static int digit(char letter)
{
	return letter <= '9' ? letter - '0' : letter - 'a' + 10;
}

/* In place. */
static size_t get_hex(char *text)
{
	size_t length = strlen(text) / 2;

	for (size_t i = 0; i < length; i++)
		text[i] = digit(text[2 * i]) << 4 | digit(text[2 * i + 1]);
	return length;
}

static int send_packet(void *address, void *packet, size_t length, uint8_t tos, uint8_t set_df)
{
	(void)address, (void)tos, (void)set_df;
	printf("packet - - ");
	put_hex(packet, length);
	return 0;
}

/* What is below the library where it has addresses is here: an interface, and sending and receiving of packets. */

struct mbuf;
void m_copydata(const struct mbuf *, int, int, char *);
void m_copyback(struct mbuf *, int, int, char *);
void m_freem(struct mbuf *);
struct mbuf *m_pullup(struct mbuf *, int);
struct mbuf *sctp_get_mbuf_for_msg(unsigned, int, int, int, int);
void *sctp_m_getptr(struct mbuf *, int, int, uint8_t *);
void sctp_common_input_processing(struct mbuf **, int, int, int, struct sockaddr *, struct sockaddr *, void *, void *,
				  uint8_t, uint8_t, uint32_t, uint16_t);
void sctp_startup_iterator(void);
void sctp_wakeup_iterator(void);

int getifaddrs(struct ifaddrs **list)
{
	static struct sockaddr_in mask = { .sin_family = AF_INET };
	static struct ifaddrs all[MOST_ADDRESSES];

	mask.sin_addr.s_addr = htonl(0xffffff00);
	*list = host_addresses ? all : NULL;
	for (size_t i = 0; i < host_addresses; i++) {
		all[i].ifa_next = i + 1 < host_addresses ? &all[i + 1] : NULL;
		all[i].ifa_name = "wire0";
		all[i].ifa_flags = IFF_UP | IFF_RUNNING;
		all[i].ifa_addr = (struct sockaddr *)&host[i];
		all[i].ifa_netmask = (struct sockaddr *)&mask;
	}
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

unsigned if_nametoindex(const char *name)
{
	(void)name;
	return 1;
}

int sctp_userspace_get_mtu_from_ifn(uint32_t index)
{
	(void)index;
	return 1500;
}

void sctp_userspace_ip_output(int *result, struct mbuf *packet, void *route, void *endpoint, uint32_t vrf)
{
	struct {
		struct iphdr ip;
		char bytes[1 << 16];
	} whole;
	char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];
	int length;

	(void)route, (void)endpoint, (void)vrf;
	m_copydata(packet, 0, sizeof whole.ip, (char *)&whole.ip);
	/* Not in network order yet. */
	length = whole.ip.tot_len - (int)sizeof whole.ip;
	m_copydata(packet, sizeof whole.ip, length, whole.bytes);
	m_freem(packet);
	inet_ntop(AF_INET, &whole.ip.saddr, from, sizeof from);
	inet_ntop(AF_INET, &whole.ip.daddr, to, sizeof to);
	/* The library has a thread that sends. */
	flockfile(stdout);
	printf("packet %s %s ", from, to);
	put_hex(whole.bytes, length);
	funlockfile(stdout);
	*result = 0;
}

static struct sockaddr_in ipv4(const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

static void take_packet(const char *from, const char *to, char *bytes, size_t length)
{
	struct sockaddr_in source = ipv4(from), destination = ipv4(to);
	struct mbuf *packet = sctp_get_mbuf_for_msg(length, 1, 1, 0, 1);
	uint8_t headers[16];
	char *start;

	m_copyback(packet, 0, length, bytes);
	packet = m_pullup(packet, sizeof headers);
	start = sctp_m_getptr(packet, 0, sizeof headers, headers);
	sctp_common_input_processing(&packet, 0, 12, length, (struct sockaddr *)&source, (struct sockaddr *)&destination,
				     start, start + 12, 1, 0, 0, 0);
	if (packet)
		m_freem(packet);
}

static int set(int option, const void *value, socklen_t length)
{
	return usrsctp_setsockopt(connection, IPPROTO_SCTP, option, value, length);
}

static struct sockaddr_conn conn_address(void)
{
	struct sockaddr_conn address = { .sconn_family = AF_CONN, .sconn_port = htons(PORT) };

	address.sconn_addr = &listener;
	return address;
}

static int has(const char *extensions, const char *name)
{
	char list[100], word[20];

	snprintf(list, sizeof list, ",%s,", extensions);
	snprintf(word, sizeof word, ",%s,", name);
	return strstr(list, word) != NULL;
}

static void start(const char *extensions, uint16_t streams)
{
	static const uint16_t events[] = {
		SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_REMOTE_ERROR, SCTP_SEND_FAILED_EVENT, SCTP_AUTHENTICATION_EVENT,
		SCTP_STREAM_RESET_EVENT, SCTP_ASSOC_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT, SCTP_PARTIAL_DELIVERY_EVENT,
	};
	int on = 1, size = BUFFER, interleave = 2;
	uint32_t whole = BUFFER / 2;
	struct sctp_initmsg init = { .sinit_num_ostreams = streams, .sinit_max_instreams = 100 };
	struct sctp_rtoinfo rto = { .srto_initial = 300, .srto_min = 200, .srto_max = 1000 };
	struct sctp_assoc_value grant = { .assoc_value = SCTP_ENABLE_VALUE_MASK };
	struct sctp_assoc_value enable = { .assoc_value = 1 };
	struct sockaddr_conn local = conn_address();

	usrsctp_init_nothreads(0, send_packet, NULL);
	usrsctp_sysctl_set_sctp_ecn_enable(0);
	usrsctp_sysctl_set_sctp_pr_enable(has(extensions, "pr"));
	usrsctp_sysctl_set_sctp_auth_enable(has(extensions, "auth"));
	usrsctp_sysctl_set_sctp_asconf_enable(has(extensions, "asconf"));
	usrsctp_sysctl_set_sctp_reconfig_enable(has(extensions, "reconf"));
	usrsctp_sysctl_set_sctp_nrsack_enable(has(extensions, "nrsack"));
	usrsctp_sysctl_set_sctp_auto_asconf(0);
	/* It sends ASCONFs. */
	if (host_addresses)
		sctp_startup_iterator();
	usrsctp_register_address(local.sconn_addr);
	connection = usrsctp_socket(host_addresses ? AF_INET : AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (!connection)
		exit(2);
	usrsctp_set_non_blocking(connection, 1);
	usrsctp_setsockopt(connection, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	usrsctp_setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	if (set(SCTP_NODELAY, &on, sizeof on) < 0 || set(SCTP_RECVRCVINFO, &on, sizeof on) < 0 ||
	    set(SCTP_INITMSG, &init, sizeof init) < 0 || set(SCTP_RTOINFO, &rto, sizeof rto) < 0 ||
	    set(SCTP_FRAGMENT_INTERLEAVE, &interleave, sizeof interleave) < 0 ||
	    set(SCTP_PARTIAL_DELIVERY_POINT, &whole, sizeof whole) < 0 ||
	    set(SCTP_ENABLE_STREAM_RESET, &grant, sizeof grant) < 0)
		exit(3);
	if (has(extensions, "idata") && set(SCTP_INTERLEAVING_SUPPORTED, &enable, sizeof enable) < 0)
		exit(4);
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event event = { .se_type = events[i], .se_on = 1 };

		if (set(SCTP_EVENT, &event, sizeof event) < 0)
			exit(5);
	}
	if (host_addresses ? usrsctp_bindx(connection, (struct sockaddr *)host, 1, SCTP_BINDX_ADD_ADDR)
			   : usrsctp_bind(connection, (struct sockaddr *)&local, sizeof local))
		exit(6);
}

static const char *outcome(unsigned flags, unsigned denied, unsigned failed)
{
	return flags & denied ? "denied" : flags & failed ? "failed" : "performed";
}

static void tell(const union sctp_notification *it)
{
	static const char *const changes[] = { "", "up", "lost", "restart", "shutdown-complete", "cannot-start" };
	unsigned flags = it->sn_header.sn_flags;

	switch (it->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE:
		printf("event %s %u %u\n", changes[it->sn_assoc_change.sac_state],
		       it->sn_assoc_change.sac_outbound_streams, it->sn_assoc_change.sac_inbound_streams);
		break;
	case SCTP_PEER_ADDR_CHANGE: {
		static const char *const states[] = { "", "available", "unreachable", "removed",
						      "added", "made-primary", "confirmed" };
		char text[INET_ADDRSTRLEN] = "-";

		inet_ntop(AF_INET, &((struct sockaddr_in *)&it->sn_paddr_change.spc_aaddr)->sin_addr, text, sizeof text);
		printf("event address %s %s\n", states[it->sn_paddr_change.spc_state], text);
		break;
	}
	case SCTP_REMOTE_ERROR:
		printf("event error %u\n", ntohs(it->sn_remote_error.sre_error));
		break;
	case SCTP_SEND_FAILED_EVENT:
		printf("event send-failed %s %u\n", flags & SCTP_DATA_SENT ? "sent" : "unsent",
		       it->sn_send_failed_event.ssfe_info.snd_sid);
		break;
	case SCTP_AUTHENTICATION_EVENT:
		printf("event key %u %u\n", it->sn_auth_event.auth_indication, it->sn_auth_event.auth_keynumber);
		break;
	case SCTP_PARTIAL_DELIVERY_EVENT:
		printf("event partial-delivery-aborted %u\n", it->sn_pdapi_event.pdapi_stream);
		break;
	case SCTP_STREAM_RESET_EVENT: {
		const struct sctp_stream_reset_event *reset = &it->sn_strreset_event;
		size_t count = (reset->strreset_length - sizeof *reset) / sizeof reset->strreset_stream_list[0];

		printf("event reset %s %s ", flags & SCTP_STREAM_RESET_INCOMING_SSN ? "incoming" : "outgoing",
		       outcome(flags, SCTP_STREAM_RESET_DENIED, SCTP_STREAM_RESET_FAILED));
		for (size_t i = 0; i < count; i++)
			printf("%s%u", i ? "," : "", reset->strreset_stream_list[i]);
		printf("\n");
		break;
	}
	case SCTP_ASSOC_RESET_EVENT:
		printf("event association-reset %s\n", outcome(flags, SCTP_ASSOC_RESET_DENIED, SCTP_ASSOC_RESET_FAILED));
		break;
	case SCTP_STREAM_CHANGE_EVENT:
		printf("event streams %s %u %u\n", outcome(flags, SCTP_STREAM_CHANGE_DENIED, SCTP_STREAM_CHANGE_FAILED),
		       it->sn_strchange_event.strchange_outstrms, it->sn_strchange_event.strchange_instrms);
		break;
	}
}

/* Takes all that has come. */
static void receive(void)
{
	for (;;) {
		struct sctp_rcvinfo info = { 0 };
		socklen_t room = sizeof info;
		unsigned type;
		int flags = 0;
		ssize_t length = usrsctp_recvv(connection, received, sizeof received, NULL, NULL, &info, &room, &type, &flags);

		if (length <= 0)
			return;
		if (flags & MSG_NOTIFICATION) {
			tell((union sctp_notification *)received);
			continue;
		}
		printf("message %u %u %s ", info.rcv_sid, info.rcv_ssn,
		       !(flags & MSG_EOR) ? "p" : info.rcv_flags & SCTP_UNORDERED ? "u" : "-");
		put_hex(received, length);
	}
}

static void accept_one(void)
{
	struct socket *accepted = listener ? usrsctp_accept(listener, NULL, NULL) : NULL;

	if (accepted) {
		connection = accepted;
		usrsctp_set_non_blocking(connection, 1);
	}
}

static int send_message(uint16_t stream, const char *flags, const char *policy, uint32_t value, char *hex)
{
	struct sctp_sendv_spa spa = { .sendv_flags = SCTP_SEND_SNDINFO_VALID };
	size_t length = get_hex(hex);

	spa.sendv_sndinfo.snd_sid = stream;
	if (*flags == 'u')
		spa.sendv_sndinfo.snd_flags = SCTP_UNORDERED;
	if (strcmp(policy, "none")) {
		spa.sendv_flags |= SCTP_SEND_PRINFO_VALID;
		spa.sendv_prinfo.pr_policy = !strcmp(policy, "ttl")   ? SCTP_PR_SCTP_TTL
					     : !strcmp(policy, "buf") ? SCTP_PR_SCTP_BUF
								      : SCTP_PR_SCTP_RTX;
		spa.sendv_prinfo.pr_value = value;
	}
	return usrsctp_sendv(connection, hex, length, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0) < 0 ? -1 : 0;
}

/* Puts the numbers of a list into an array: how many they are. */
static size_t numbers(char *list, uint16_t *to)
{
	size_t count = 0;
	char *one;

	while ((one = strsep(&list, ",")) && *one != '-')
		to[count++] = atoi(one);
	return count;
}

static int reset(uint16_t flags, char *list)
{
	static uint16_t room[1000];
	struct sctp_reset_streams *reset = (struct sctp_reset_streams *)room;

	reset->srs_assoc_id = 0;
	reset->srs_flags = flags;
	reset->srs_number_streams = numbers(list, reset->srs_stream_list);
	return set(SCTP_RESET_STREAMS, reset, sizeof *reset + reset->srs_number_streams * sizeof(uint16_t));
}

static int hmacs(char *list)
{
	static uint32_t room[100];
	struct sctp_hmacalgo *algorithms = (struct sctp_hmacalgo *)room;

	algorithms->shmac_number_of_idents = numbers(list, algorithms->shmac_idents);
	return set(SCTP_HMAC_IDENT, algorithms, sizeof *algorithms + algorithms->shmac_number_of_idents * sizeof(uint16_t));
}

static int key(uint16_t number, char *hex)
{
	static uint32_t room[100];
	struct sctp_authkey *key = (struct sctp_authkey *)room;

	key->sca_assoc_id = 0;
	key->sca_keynumber = number;
	key->sca_keylength = get_hex(hex);
	memcpy(key->sca_key, hex, key->sca_keylength);
	return set(SCTP_AUTH_KEY, key, sizeof *key + key->sca_keylength);
}

static int with_key(int option, uint16_t number)
{
	struct sctp_authkeyid id = { .scact_keynumber = number };

	return set(option, &id, sizeof id);
}

static int supported(void)
{
	static const struct {
		const char *name;
		int option;
	} extensions[] = {
		{ "pr", SCTP_PR_SUPPORTED },		{ "auth", SCTP_AUTH_SUPPORTED },
		{ "asconf", SCTP_ASCONF_SUPPORTED },	{ "reconf", SCTP_RECONFIG_SUPPORTED },
		{ "idata", SCTP_INTERLEAVING_SUPPORTED }, { "nrsack", SCTP_NRSACK_SUPPORTED },
	};
	int any = 0;

	printf("event supported ");
	for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
		struct sctp_assoc_value value = { 0 };
		socklen_t length = sizeof value;

		if (usrsctp_getsockopt(connection, IPPROTO_SCTP, extensions[i].option, &value, &length) == 0 &&
		    value.assoc_value)
			printf("%s%s", any++ ? "," : "", extensions[i].name);
	}
	printf("%s\n", any ? "" : "none");
	return 0;
}

static int connect_to_it(const char *to)
{
	struct sockaddr_conn conn = conn_address();
	struct sockaddr_in in = ipv4(to);
	int result = host_addresses ? usrsctp_connect(connection, (struct sockaddr *)&in, sizeof in)
				    : usrsctp_connect(connection, (struct sockaddr *)&conn, sizeof conn);

	return result < 0 && errno != EINPROGRESS ? -1 : 0;
}

static int change_address(const char *text, int flags)
{
	struct sockaddr_in address = ipv4(text);
	int result = usrsctp_bindx(connection, (struct sockaddr *)&address, 1, flags);

	/* A thread of the library goes on with it, which may not have waited for that yet. */
	for (int patience = 5; patience > 0; patience--) {
		usleep(10000);
		sctp_wakeup_iterator();
	}
	usleep(10000);
	return result;
}

static int ask_for_primary(const char *text)
{
	struct sctp_setpeerprim primary = { 0 };
	struct sockaddr_in address = ipv4(text);

	memcpy(&primary.sspp_addr, &address, sizeof address);
	return set(SCTP_SET_PEER_PRIMARY_ADDR, &primary, sizeof primary);
}

static int listen_for_it(void)
{
	listener = connection;
	return usrsctp_listen(listener, 1);
}

static int run(int count, char **words)
{
	const char *command = words[0];

	if (count == 1 && !strcmp(command, "listen"))
		return listen_for_it();
	if (count == 2 && !strcmp(command, "connect"))
		return connect_to_it(words[1]);
	if (count == 2 && !strcmp(command, "time")) {
		for (int left = atoi(words[1]); left > 0; left -= TICK) {
			milliseconds += TICK;
			usrsctp_handle_timers(TICK);
		}
		return 0;
	}
	if (count == 4 && !strcmp(command, "packet")) {
		size_t length = get_hex(words[3]);

		if (host_addresses)
			take_packet(words[1], words[2], words[3], length);
		else
			usrsctp_conninput(conn_address().sconn_addr, words[3], length, 0);
		return 0;
	}
	if (count == 2 && !strcmp(command, "add-address"))
		return change_address(words[1], SCTP_BINDX_ADD_ADDR);
	if (count == 2 && !strcmp(command, "delete-address"))
		return change_address(words[1], SCTP_BINDX_REM_ADDR);
	if (count == 2 && !strcmp(command, "peer-primary"))
		return ask_for_primary(words[1]);
	if (count == 6 && !strcmp(command, "send"))
		return send_message(atoi(words[1]), words[2], words[3], atoi(words[4]), words[5]);
	if (count == 3 && !strcmp(command, "reset"))
		return reset(atoi(words[1]), words[2]);
	if (count == 1 && !strcmp(command, "reset-association")) {
		sctp_assoc_t all = 0;

		return set(SCTP_RESET_ASSOC, &all, sizeof all);
	}
	if (count == 3 && !strcmp(command, "add")) {
		struct sctp_add_streams add = { .sas_outstrms = atoi(words[1]), .sas_instrms = atoi(words[2]) };

		return set(SCTP_ADD_STREAMS, &add, sizeof add);
	}
	if (count == 1 && !strcmp(command, "supported"))
		return supported();
	if (count == 2 && !strcmp(command, "chunk")) {
		struct sctp_authchunk chunk = { .sauth_chunk = atoi(words[1]) };

		return set(SCTP_AUTH_CHUNK, &chunk, sizeof chunk);
	}
	if (count == 2 && !strcmp(command, "hmacs"))
		return hmacs(words[1]);
	if (count == 3 && !strcmp(command, "key"))
		return key(atoi(words[1]), words[2]);
	if (count == 2 && !strcmp(command, "active-key"))
		return with_key(SCTP_AUTH_ACTIVE_KEY, atoi(words[1]));
	if (count == 2 && !strcmp(command, "deactivate-key"))
		return with_key(SCTP_AUTH_DEACTIVATE_KEY, atoi(words[1]));
	if (count == 2 && !strcmp(command, "delete-key"))
		return with_key(SCTP_AUTH_DELETE_KEY, atoi(words[1]));
	errno = ENOSYS;
	return -1;
}

int main(int count, char **arguments)
{
	char *line = NULL;
	size_t room = 0;
	static char buffer[1 << 20];
	char *one;

	if (count != 3 && count != 4)
		return 2;
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	while (count == 4 && host_addresses < MOST_ADDRESSES && (one = strsep(&arguments[3], ",")))
		host[host_addresses++] = ipv4(one);
	start(arguments[1], atoi(arguments[2]));
	while (getline(&line, &room, stdin) > 0) {
		char *words[8], *rest = line;
		int found = 0, result, error;

		line[strcspn(line, "\n")] = '\0';
		while (found < 8 && (words[found] = strsep(&rest, " ")))
			found++;
		result = run(found, words);
		error = errno;
		accept_one();
		receive();
		if (result < 0)
			printf("error %s\n", strerror(error));
		else
			printf("ok\n");
		fflush(stdout);
	}
	/* Threads of the library are not there to be waited for. */
	fflush(stdout);
	_Exit(0);
}
