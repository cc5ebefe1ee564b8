/* relay: the smallest fan-out server that can be written, one thread: what real relays are compared with.
 *
 *   relay PORT each    one send() per message and subscriber
 *   relay PORT joined  everything of one read goes out as one send() per subscriber
 *
 * GET /pub/NNNN publishes to channel NNNN, GET /sub/NNNN subscribes to it. It knows only load's
 * Sec-WebSocket-Key, no control frames, no limits; a subscriber that would block is waited for.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FDS = 20000, BUF = 1 << 20, CHANNELS = 10000 };
typedef struct { int n, cap, *fds; } channel;
typedef struct { int open, publisher; channel *to; size_t n; unsigned char *buf; } conn;
static conn conns[FDS];
static channel channels[CHANNELS];
static int joined;
static char out[4 * BUF];
static size_t outlen;

static void send_all(channel *to) {
    for (int i = 0; i < to->n; i++)
        for (size_t done = 0; done < outlen;) {
            ssize_t r = send(to->fds[i], out + done, outlen - done, MSG_NOSIGNAL);
            if (r > 0) done += r;
            else if (errno != EAGAIN) break;
        }
    outlen = 0;
}
static void message(channel *to, const unsigned char *p, size_t n) {
    if (outlen + n + 10 > sizeof out) send_all(to);
    char *h = out + outlen; size_t k = 2;
    h[0] = (char)0x81;
    if (n < 126) h[1] = n;
    else if (n < 65536) { h[1] = 126; h[2] = n >> 8; h[3] = n; k = 4; }
    else { h[1] = 127; for (int i = 0; i < 8; i++) h[2 + i] = (uint64_t)n >> (56 - 8 * i); k = 10; }
    memcpy(h + k, p, n); outlen += k + n;
    if (!joined) send_all(to);
}
static void published(conn *c) {
    size_t pos = 0;
    while (c->n - pos >= 6) {
        unsigned char *f = c->buf + pos; size_t len = f[1] & 127, h = 2;
        if (len == 126) { len = f[2] << 8 | f[3]; h = 4; }
        else if (len == 127) { if (c->n - pos < 14) break; len = 0; for (int i = 2; i < 10; i++) len = len << 8 | f[i]; h = 10; }
        if (c->n - pos < h + 4 + len) break;
        unsigned char *mask = f + h, *data = mask + 4;
        if (mask[0] | mask[1] | mask[2] | mask[3]) for (size_t i = 0; i < len; i++) data[i] ^= mask[i & 3];
        message(c->to, data, len);
        pos += h + 4 + len;
    }
    memmove(c->buf, c->buf + pos, c->n - pos); c->n -= pos;
    if (outlen) send_all(c->to);
}
static void opened(int fd, conn *c, const char *request) {
    static const char ok[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    c->open = 1; c->publisher = !memcmp(request, "GET /pub", 8);
    c->to = &channels[(unsigned)atoi(request + 9) % CHANNELS];
    if (c->publisher) c->buf = malloc(BUF);
    else {
        if (c->to->n == c->to->cap) c->to->fds = realloc(c->to->fds, (c->to->cap = 2 * c->to->cap + 4) * sizeof(int));
        c->to->fds[c->to->n++] = fd;
    }
    if (send(fd, ok, sizeof ok - 1, MSG_NOSIGNAL) < 0) perror("send");
}
static void gone(int fd, conn *c) {
    channel *to = c->to;
    for (int i = 0; to && !c->publisher && i < to->n; i++) if (to->fds[i] == fd) to->fds[i--] = to->fds[--to->n];
    close(fd); free(c->buf); *c = (conn){ 0 };
}

int main(int argc, char **argv) {
    if (argc < 3) { fprintf(stderr, "relay PORT each|joined\n"); return 2; }
    joined = !strcmp(argv[2], "joined");
    int ls = socket(AF_INET, SOCK_STREAM, 0), one = 1, ep = epoll_create1(0);
    setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (bind(ls, (void *)&a, sizeof a) || listen(ls, 4096)) { perror("bind"); return 1; }
    struct epoll_event e = { .events = EPOLLIN, .data.fd = ls }, ev[256];
    epoll_ctl(ep, EPOLL_CTL_ADD, ls, &e);
    for (;;) {
        int n = epoll_wait(ep, ev, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd == ls) {
                int s = accept4(ls, 0, 0, SOCK_NONBLOCK);
                if (s < 0 || s >= FDS) continue;
                setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                e = (struct epoll_event){ .events = EPOLLIN, .data.fd = s }; epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
                continue;
            }
            conn *c = &conns[fd]; char small[4096];
            ssize_t r = c->publisher ? recv(fd, c->buf + c->n, BUF - c->n, 0) : recv(fd, small, sizeof small, 0);
            if (r < 0 && errno == EAGAIN) continue;
            if (r <= 0) gone(fd, c);
            else if (!c->open) opened(fd, c, small);
            else if (c->publisher) { c->n += r; published(c); }
        }
    }
}
