/* `peer console`: one end of one association at a time, with the extensions that it is told.
 *
 * Each line on standard input is a number, a command and its arguments. It is answered by a line with the same number:
 * `ok` or what was asked for, or `failed: REASON`. What happens meanwhile is told by lines that begin with `+`.
 *
 *   socket EXTENSIONS STREAMS       a new socket, with these of pr, auth, asconf, reconf and idata, and no others
 *   bind PORT ADDRESSES             listen             connect PORT ADDRESSES
 *   send STREAM HOW VALUE KEY TEXT  HOW is reliable, ttl, rtx or prio, with its VALUE; with u- before it the message is
 *                                   unordered. KEY is the shared key that authenticates it, or -
 *   large STREAM BYTES              one message of a pattern
 *   pour BYTES SIZE                 BYTES of a pattern in messages of SIZE on stream 0; `+poured` tells when they are sent
 *   quiet                           messages that come are counted, but not told
 *   received                        what has come altogether
 *   abandoned POLICY                messages given up: unsent, sent
 *   streams                         inbound, outbound
 *   reset-streams FLAGS STREAM...   FLAGS is 1 for incoming ones, 2 for outgoing ones, 3 for both
 *   reset-association               add-streams IN OUT
 *   scheduler NUMBER                stream-value STREAM VALUE
 *   add ADDRESS                     remove ADDRESS     (of this end)
 *   primary ADDRESS                 of the other end
 *   peer-primary ADDRESS            asks the other end to send to this address
 *   local-addresses                 peer-addresses
 *   hmacs NUMBER...                 auth-chunk TYPE    peer-auth-chunks
 *   key NUMBER TEXT                 active-key NUMBER  deactivate-key NUMBER  delete-key NUMBER
 *   shutdown                        abort              close
 *   shell COMMAND
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sctp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

#define MOST_STREAMS 256
#define ROOM (1 << 20)

/* The part of a message that has come on a stream. */
struct part {
	char *bytes;
	size_t length;
};

static int listener = -1, association = -1;
static uint16_t port;
static int is_quiet;
static struct part parts[MOST_STREAMS][2];
static uint64_t bytes_received, messages_received, hash_received;
static uint64_t to_pour, poured, hash_poured;
static size_t pour_size;
static uint32_t pour_state;
static char buffer[ROOM];

/* The socket that options are set on. */
static int current(void)
{
	return association >= 0 ? association : listener;
}

static int set(int option, const void *value, socklen_t length)
{
	return setsockopt(current(), IPPROTO_SCTP, option, value, length);
}

static int set_number(int option, uint32_t number)
{
	struct sctp_assoc_value value = { .assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = number };

	return set(option, &value, sizeof value);
}

static void forget_association(void)
{
	if (association >= 0)
		close(association);
	association = -1;
	to_pour = 0;
	for (int stream = 0; stream < MOST_STREAMS; stream++)
		for (int unordered = 0; unordered < 2; unordered++) {
			free(parts[stream][unordered].bytes);
			parts[stream][unordered] = (struct part){ 0 };
		}
}

static void close_all(void)
{
	forget_association();
	if (listener >= 0)
		close(listener);
	listener = -1;
}

/* Opens a socket that has these extensions. */
static int open_with(char *extensions, int streams)
{
	static const struct {
		const char *name;
		int option;
	} all[] = {
		{ "auth", SCTP_AUTH_SUPPORTED },
		{ "asconf", SCTP_ASCONF_SUPPORTED },
		{ "pr", SCTP_PR_SUPPORTED },
		{ "reconf", SCTP_RECONFIG_SUPPORTED },
		{ "idata", SCTP_INTERLEAVING_SUPPORTED },
	};
	static const uint16_t events[] = {
		SCTP_ASSOC_CHANGE,	  SCTP_PEER_ADDR_CHANGE,   SCTP_SHUTDOWN_EVENT,	   SCTP_STREAM_RESET_EVENT,
		SCTP_ASSOC_RESET_EVENT,	  SCTP_STREAM_CHANGE_EVENT, SCTP_AUTHENTICATION_EVENT, SCTP_ADAPTATION_INDICATION,
	};
	struct sctp_initmsg init = { .sinit_num_ostreams = streams, .sinit_max_instreams = MOST_STREAMS };
	struct sctp_rtoinfo rto = { .srto_initial = 500, .srto_min = 200, .srto_max = 1000 };
	int on = 1, interleave = 2, room = 8 << 20;
	int has[sizeof all / sizeof *all] = { 0 };

	for (char *name; (name = strsep(&extensions, ","));) {
		size_t i = 0;

		while (i < sizeof all / sizeof *all && strcmp(all[i].name, name))
			i++;
		if (i < sizeof all / sizeof *all)
			has[i] = 1;
		else if (strcmp(name, "none"))
			return -1;
	}
	close_all();
	bytes_received = messages_received = is_quiet = 0;
	hash_received = HASH_OF_NOTHING;
	listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
	if (listener < 0)
		return -1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	setsockopt(listener, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
	setsockopt(listener, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
	if (set(SCTP_NODELAY, &on, sizeof on) < 0 || set(SCTP_INITMSG, &init, sizeof init) < 0 ||
	    set(SCTP_RTOINFO, &rto, sizeof rto) < 0 || set(SCTP_RECVRCVINFO, &on, sizeof on) < 0 ||
	    set(SCTP_FRAGMENT_INTERLEAVE, &interleave, sizeof interleave) < 0 ||
	    set_number(SCTP_ENABLE_STREAM_RESET, 7) < 0)
		return -1;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (set_number(all[i].option, has[i]) < 0)
			return -1;
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event event = { .se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = events[i], .se_on = 1 };

		if (set(SCTP_EVENT, &event, sizeof event) < 0)
			return -1;
	}
	return 0;
}

static int with_addresses(int option, char *list)
{
	struct addresses all = parse(list, port);

	return set(option, all.packed, all.length);
}

static int connect_to(uint16_t to, char *list)
{
	struct addresses remote = parse(list, to);

	if (set(SCTP_SOCKOPT_CONNECTX, remote.packed, remote.length) < 0)
		return -1;
	association = listener;
	listener = -1;
	return 0;
}

/* Puts a control message into a header's. */
static void *put_control(struct msghdr *header, int type, const void *value, size_t length)
{
	struct cmsghdr *control = (struct cmsghdr *)((char *)header->msg_control + header->msg_controllen);

	control->cmsg_level = IPPROTO_SCTP;
	control->cmsg_type = type;
	control->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(control), value, length);
	header->msg_controllen += CMSG_SPACE(length);
	return control;
}

static ssize_t send_message(const char *bytes, size_t length, uint16_t stream, const char *how, uint32_t value,
			    const char *key, int flags)
{
	char control[256] __attribute__((aligned(8))) = { 0 };
	struct iovec part = { (void *)bytes, length };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control };
	struct sctp_sndinfo info = { .snd_sid = stream, .snd_ppid = htonl(42) };
	struct sctp_prinfo policy = { .pr_value = value };

	if (!strncmp(how, "u-", 2)) {
		info.snd_flags = SCTP_UNORDERED;
		how += 2;
	}
	policy.pr_policy = !strcmp(how, "ttl")	  ? SCTP_PR_SCTP_TTL
			   : !strcmp(how, "rtx")  ? SCTP_PR_SCTP_RTX
			   : !strcmp(how, "prio") ? SCTP_PR_SCTP_PRIO
						  : SCTP_PR_SCTP_NONE;
	put_control(&header, SCTP_SNDINFO, &info, sizeof info);
	put_control(&header, SCTP_PRINFO, &policy, sizeof policy);
	if (strcmp(key, "-")) {
		struct sctp_authinfo number = { .auth_keynumber = atoi(key) };

		put_control(&header, SCTP_AUTHINFO, &number, sizeof number);
	}
	return sendmsg(association, &header, MSG_NOSIGNAL | flags);
}

static int send_large(uint16_t stream, size_t length)
{
	uint32_t state = 1;

	if (length > sizeof buffer) {
		errno = EMSGSIZE;
		return -1;
	}
	fill(buffer, length, &state);
	return send_message(buffer, length, stream, "reliable", 0, "-", 0) < 0 ? -1 : 0;
}

/* Sends what there is room for of what is to be poured. */
static void pour(void)
{
	while (to_pour > 0) {
		uint32_t state = pour_state;
		size_t length = to_pour < pour_size ? to_pour : pour_size;

		fill(buffer, length, &state);
		if (send_message(buffer, length, 0, "reliable", 0, "-", MSG_DONTWAIT) < 0) {
			if (errno != EAGAIN) {
				printf("+failed to pour: %s\n", strerror(errno));
				to_pour = 0;
			}
			return;
		}
		pour_state = state;
		hash_poured = hashed(hash_poured, buffer, length);
		poured += length;
		to_pour -= length;
	}
	printf("+poured %llu bytes, hash %016llx\n", (unsigned long long)poured, (unsigned long long)hash_poured);
}

static int reset_streams(uint16_t flags, char *rest)
{
	char room[sizeof(struct sctp_reset_streams) + MOST_STREAMS * sizeof(uint16_t)] = { 0 };
	struct sctp_reset_streams *reset = (struct sctp_reset_streams *)room;

	reset->srs_flags = flags;
	for (char *stream; (stream = strsep(&rest, " ")) && reset->srs_number_streams < MOST_STREAMS;)
		reset->srs_stream_list[reset->srs_number_streams++] = atoi(stream);
	return set(SCTP_RESET_STREAMS, reset, sizeof *reset + reset->srs_number_streams * sizeof(uint16_t));
}

static void say_address(const struct sockaddr *address)
{
	char text[INET6_ADDRSTRLEN] = "?";
	const void *bytes = address->sa_family == AF_INET ? (void *)&((struct sockaddr_in *)address)->sin_addr
							  : (void *)&((struct sockaddr_in6 *)address)->sin6_addr;

	inet_ntop(address->sa_family, bytes, text, sizeof text);
	printf(" %s", text);
}

static int say_addresses(int number, int option)
{
	struct sctp_getaddrs *all = (struct sctp_getaddrs *)buffer;
	socklen_t length = sizeof buffer;
	char *next = (char *)all->addrs;

	memset(all, 0, sizeof *all);
	if (getsockopt(current(), IPPROTO_SCTP, option, all, &length) < 0)
		return -1;
	printf("%d", number);
	for (unsigned int i = 0; i < all->addr_num; i++) {
		struct sockaddr *address = (struct sockaddr *)next;

		say_address(address);
		next += address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	}
	printf("\n");
	return 1;
}

static int say_auth_chunks(int number)
{
	struct sctp_authchunks *chunks = (struct sctp_authchunks *)buffer;
	socklen_t length = sizeof buffer;

	memset(chunks, 0, sizeof *chunks);
	if (getsockopt(current(), IPPROTO_SCTP, SCTP_PEER_AUTH_CHUNKS, chunks, &length) < 0)
		return -1;
	printf("%d", number);
	for (unsigned int i = 0; i < chunks->gauth_number_of_chunks; i++)
		printf(" %u", chunks->gauth_chunks[i]);
	printf("\n");
	return 1;
}

static int say_streams(int number)
{
	struct sctp_status status = { 0 };
	socklen_t length = sizeof status;

	if (getsockopt(current(), IPPROTO_SCTP, SCTP_STATUS, &status, &length) < 0)
		return -1;
	printf("%d %u %u\n", number, status.sstat_instrms, status.sstat_outstrms);
	return 1;
}

static int say_abandoned(int number, const char *policy)
{
	struct sctp_prstatus status = { 0 };
	socklen_t length = sizeof status;

	status.sprstat_policy = !strcmp(policy, "ttl") ? SCTP_PR_SCTP_TTL
				: !strcmp(policy, "rtx") ? SCTP_PR_SCTP_RTX
							 : SCTP_PR_SCTP_PRIO;
	if (getsockopt(current(), IPPROTO_SCTP, SCTP_PR_ASSOC_STATUS, &status, &length) < 0)
		return -1;
	printf("%d %llu %llu\n", number, (unsigned long long)status.sprstat_abandoned_unsent,
	       (unsigned long long)status.sprstat_abandoned_sent);
	return 1;
}

static int set_hmacs(char *rest)
{
	char room[sizeof(struct sctp_hmacalgo) + 4 * sizeof(uint16_t)] = { 0 };
	struct sctp_hmacalgo *hmacs = (struct sctp_hmacalgo *)room;

	for (char *number; (number = strsep(&rest, " ")) && hmacs->shmac_num_idents < 4;)
		hmacs->shmac_idents[hmacs->shmac_num_idents++] = atoi(number);
	return set(SCTP_HMAC_IDENT, hmacs, sizeof *hmacs + hmacs->shmac_num_idents * sizeof(uint16_t));
}

static int set_key(uint16_t number, const char *text)
{
	char room[sizeof(struct sctp_authkey) + 256] = { 0 };
	struct sctp_authkey *key = (struct sctp_authkey *)room;

	key->sca_keynumber = number;
	key->sca_keylength = strnlen(text, 256);
	memcpy(key->sca_key, text, key->sca_keylength);
	return set(SCTP_AUTH_KEY, key, sizeof *key + key->sca_keylength);
}

static int set_key_state(int option, uint16_t number)
{
	struct sctp_authkeyid key = { .scact_keynumber = number };

	return set(option, &key, sizeof key);
}

static int set_primary(int option, char *text, uint16_t of_port)
{
	/* SCTP_PRIMARY_ADDR and SCTP_SET_PEER_PRIMARY_ADDR have the same layout. */
	struct sctp_setpeerprim primary = { 0 };
	struct addresses address = parse(text, of_port);

	memcpy(&primary.sspp_addr, address.packed, address.length);
	return set(option, &primary, sizeof primary);
}

static int abort_it(void)
{
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(association, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	forget_association();
	return 0;
}

/* Does a command: -1 when it failed, 0 when it is done, 1 when the answer has been given. */
static int obey(int number, char *rest)
{
	const char *command = strsep(&rest, " ");
	char *first = "", *second = "", *after_first = NULL;

	if (!strcmp(command, "shell"))
		return system(rest) == 0 ? 0 : -1;
	if (rest && !strcmp(command, "hmacs"))
		return set_hmacs(rest);
	if (rest) {
		first = strsep(&rest, " ");
		after_first = rest;
	}
	if (!strcmp(command, "reset-streams"))
		return reset_streams(atoi(first), after_first);
	if (!strcmp(command, "key"))
		return set_key(atoi(first), after_first ? after_first : "");
	if (rest)
		second = strsep(&rest, " ");
	if (!strcmp(command, "send")) {
		const char *value = rest ? strsep(&rest, " ") : "0", *key = rest ? strsep(&rest, " ") : "-";
		const char *text = rest ? rest : "";

		return send_message(text, strlen(text), atoi(first), second, atoi(value), key, 0) < 0 ? -1 : 0;
	}
	if (!strcmp(command, "socket"))
		return open_with(first, atoi(second));
	if (!strcmp(command, "bind")) {
		port = atoi(first);
		return with_addresses(SCTP_SOCKOPT_BINDX_ADD, second);
	}
	if (!strcmp(command, "listen"))
		return listen(listener, 10);
	if (!strcmp(command, "connect"))
		return connect_to(atoi(first), second);
	if (!strcmp(command, "large"))
		return send_large(atoi(first), atoi(second));
	if (!strcmp(command, "pour")) {
		to_pour = strtoull(first, NULL, 10);
		pour_size = atoi(second);
		pour_state = 1;
		poured = 0;
		hash_poured = HASH_OF_NOTHING;
		return 0;
	}
	if (!strcmp(command, "quiet")) {
		is_quiet = 1;
		return 0;
	}
	if (!strcmp(command, "received")) {
		printf("%d %llu bytes, %llu messages, hash %016llx\n", number, (unsigned long long)bytes_received,
		       (unsigned long long)messages_received, (unsigned long long)hash_received);
		return 1;
	}
	if (!strcmp(command, "abandoned"))
		return say_abandoned(number, first);
	if (!strcmp(command, "streams"))
		return say_streams(number);
	if (!strcmp(command, "reset-association")) {
		sctp_assoc_t id = 0;

		return set(SCTP_RESET_ASSOC, &id, sizeof id);
	}
	if (!strcmp(command, "add-streams")) {
		struct sctp_add_streams more = { .sas_instrms = atoi(first), .sas_outstrms = atoi(second) };

		return set(SCTP_ADD_STREAMS, &more, sizeof more);
	}
	if (!strcmp(command, "scheduler"))
		return set_number(SCTP_STREAM_SCHEDULER, atoi(first));
	if (!strcmp(command, "stream-value")) {
		struct sctp_stream_value value = { .stream_id = atoi(first), .stream_value = atoi(second) };

		return set(SCTP_STREAM_SCHEDULER_VALUE, &value, sizeof value);
	}
	if (!strcmp(command, "add"))
		return with_addresses(SCTP_SOCKOPT_BINDX_ADD, first);
	if (!strcmp(command, "remove"))
		return with_addresses(SCTP_SOCKOPT_BINDX_REM, first);
	if (!strcmp(command, "primary"))
		return set_primary(SCTP_PRIMARY_ADDR, first, 0);
	if (!strcmp(command, "peer-primary"))
		return set_primary(SCTP_SET_PEER_PRIMARY_ADDR, first, port);
	if (!strcmp(command, "local-addresses"))
		return say_addresses(number, SCTP_GET_LOCAL_ADDRS);
	if (!strcmp(command, "peer-addresses"))
		return say_addresses(number, SCTP_GET_PEER_ADDRS);
	if (!strcmp(command, "auth-chunk")) {
		struct sctp_authchunk chunk = { .sauth_chunk = atoi(first) };

		return set(SCTP_AUTH_CHUNK, &chunk, sizeof chunk);
	}
	if (!strcmp(command, "peer-auth-chunks"))
		return say_auth_chunks(number);
	if (!strcmp(command, "active-key"))
		return set_key_state(SCTP_AUTH_ACTIVE_KEY, atoi(first));
	if (!strcmp(command, "deactivate-key"))
		return set_key_state(SCTP_AUTH_DEACTIVATE_KEY, atoi(first));
	if (!strcmp(command, "delete-key"))
		return set_key_state(SCTP_AUTH_DELETE_KEY, atoi(first));
	if (!strcmp(command, "shutdown"))
		return shutdown(association, SHUT_WR);
	if (!strcmp(command, "abort"))
		return abort_it();
	if (!strcmp(command, "close")) {
		close_all();
		return 0;
	}
	errno = ENOSYS;
	return -1;
}

static const char *outcome(uint16_t flags)
{
	return flags & SCTP_STREAM_RESET_DENIED ? "denied" : flags & SCTP_STREAM_RESET_FAILED ? "failed" : "performed";
}

static void tell_event(const union sctp_notification *event)
{
	switch (event->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE: {
		static const char *const states[] = { "up", "lost", "restarted", "ended", "not up" };

		printf("+association %s\n", states[event->sn_assoc_change.sac_state % 5]);
		if (event->sn_assoc_change.sac_state == SCTP_COMM_LOST || event->sn_assoc_change.sac_state == SCTP_SHUTDOWN_COMP) {
			printf("+end\n");
			forget_association();
		}
		break;
	}
	case SCTP_SHUTDOWN_EVENT:
		printf("+the peer shuts down\n");
		break;
	case SCTP_PEER_ADDR_CHANGE: {
		static const char *const states[] = { "available", "unreachable", "removed",	       "added",
						      "primary",   "confirmed",	  "potentially failed" };

		printf("+peer address");
		say_address((struct sockaddr *)&event->sn_paddr_change.spc_aaddr);
		printf(" %s\n", states[event->sn_paddr_change.spc_state % 7]);
		break;
	}
	case SCTP_STREAM_RESET_EVENT: {
		const struct sctp_stream_reset_event *reset = &event->sn_strreset_event;
		size_t streams = (reset->strreset_length - sizeof *reset) / sizeof(uint16_t);

		printf("+reset %s%s %s", reset->strreset_flags & SCTP_STREAM_RESET_INCOMING_SSN ? "incoming" : "",
		       reset->strreset_flags & SCTP_STREAM_RESET_OUTGOING_SSN ? "outgoing" : "",
		       outcome(reset->strreset_flags));
		for (size_t i = 0; i < streams; i++)
			printf(" %u", reset->strreset_stream_list[i]);
		printf("\n");
		break;
	}
	case SCTP_ASSOC_RESET_EVENT:
		printf("+association reset %s\n", outcome(event->sn_assocreset_event.assocreset_flags));
		break;
	case SCTP_STREAM_CHANGE_EVENT:
		printf("+streams %u %u %s\n", event->sn_strchange_event.strchange_instrms,
		       event->sn_strchange_event.strchange_outstrms, outcome(event->sn_strchange_event.strchange_flags));
		break;
	case SCTP_AUTHENTICATION_EVENT: {
		static const char *const kinds[] = { "new", "free", "no authentication" };

		printf("+key %u %s\n", event->sn_authkey_event.auth_keynumber,
		       kinds[event->sn_authkey_event.auth_indication % 3]);
		break;
	}
	case SCTP_ADAPTATION_INDICATION:
		printf("+adaptation %u\n", ntohl(event->sn_adaptation_event.sai_adaptation_ind));
		break;
	}
}

static void tell_message(uint16_t stream, int unordered, const struct part *message)
{
	int shown = message->length <= 80 ? (int)message->length : 0;

	bytes_received += message->length;
	messages_received++;
	hash_received = hashed(hash_received, message->bytes, message->length);
	if (!is_quiet)
		printf("+message on %u%s: %zu bytes, hash %016llx: %.*s\n", stream, unordered ? ", unordered" : "",
		       message->length,
		       (unsigned long long)hashed(HASH_OF_NOTHING, message->bytes, message->length), shown, message->bytes);
}

/* Takes what has come, until there is no more at present. */
static void take(void)
{
	while (association >= 0) {
		char control[256] __attribute__((aligned(8)));
		struct iovec vector = { buffer, sizeof buffer };
		struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
		ssize_t length = recvmsg(association, &header, MSG_DONTWAIT);
		struct sctp_rcvinfo info = { 0 };
		struct part *part;

		if (length < 0 && errno == EAGAIN)
			return;
		if (length <= 0) {
			printf("+end%s%s\n", length < 0 ? ": " : "", length < 0 ? strerror(errno) : "");
			forget_association();
			return;
		}
		if (header.msg_flags & MSG_NOTIFICATION) {
			tell_event((union sctp_notification *)buffer);
			continue;
		}
		for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header); cmsg; cmsg = CMSG_NXTHDR(&header, cmsg))
			if (cmsg->cmsg_level == IPPROTO_SCTP && cmsg->cmsg_type == SCTP_RCVINFO)
				memcpy(&info, CMSG_DATA(cmsg), sizeof info);
		part = &parts[info.rcv_sid % MOST_STREAMS][!!(info.rcv_flags & SCTP_UNORDERED)];
		part->bytes = realloc(part->bytes, part->length + length);
		memcpy(part->bytes + part->length, buffer, length);
		part->length += length;
		if (header.msg_flags & MSG_EOR) {
			tell_message(info.rcv_sid, info.rcv_flags & SCTP_UNORDERED, part);
			part->length = 0;
		}
	}
}

static void take_command(char *line)
{
	char *rest = line;
	int number = atoi(strsep(&rest, " "));

	switch (rest ? obey(number, rest) : 0) {
	case -1:
		printf("%d failed: %s\n", number, strerror(errno));
		break;
	case 0:
		printf("%d ok\n", number);
		break;
	}
}

/* Reads what standard input has, and does the commands in it; 0 at its end. */
static int take_commands(void)
{
	static char lines[65536];
	static size_t length;
	ssize_t got = read(STDIN_FILENO, lines + length, sizeof lines - length - 1);
	char *end;

	if (got <= 0)
		return 0;
	length += got;
	while ((end = memchr(lines, '\n', length))) {
		*end = 0;
		take_command(lines);
		length -= end + 1 - lines;
		memmove(lines, end + 1, length);
	}
	return 1;
}

int console(void)
{
	for (;;) {
		struct pollfd ready[] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = association, .events = POLLIN | (to_pour > 0 ? POLLOUT : 0) },
			{ .fd = association < 0 ? listener : -1, .events = POLLIN },
		};

		if (poll(ready, 3, -1) < 0)
			return 1;
		if (ready[2].revents & POLLIN)
			association = accept(listener, NULL, NULL);
		if (ready[1].revents & ~POLLOUT)
			take();
		if (ready[1].revents & POLLOUT && to_pour > 0 && association >= 0)
			pour();
		if (ready[0].revents && !take_commands())
			return 0;
	}
}
