/* What the parts of `peer` share. */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define MOST_ADDRESSES 8
#define HASH_OF_NOTHING 0xcbf29ce484222325ULL

struct addresses {
	char packed[MOST_ADDRESSES * sizeof(struct sockaddr_in6)];
	socklen_t length;
	int count;
	int family;
};

/* Addresses one behind the other, as the kernel wants them for bindx and connectx. Ends the program where one is none. */
struct addresses parse(const char *list, uint16_t port);

/* An FNV-1a hash, continued. */
uint64_t hashed(uint64_t hash, const char *bytes, size_t length);

/* Bytes of a pattern, which `state` continues; it begins with 1. */
void fill(char *bytes, size_t length, uint32_t *state);

/* Does what the lines on standard input say. */
int console(void);

#endif
