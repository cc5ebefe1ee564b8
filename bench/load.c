/* load: publishers and many subscribers of a websocket fan-out, in one thread.
 *
 * There are SESSIONS (-x), each with one publisher and SUBSCRIBERS (-n). Every connection first says
 * its prepared messages, each after the answer to the one before it came (-s message -S "text in its
 * answer" for subscribers, -j and -J for publishers; an empty message only waits). Then WINDOW (-w)
 * entries are kept in flight over all sessions, published in turn: sent, and not yet received by
 * every subscriber (with -a: and not yet acknowledged, the publisher's "seq":N). Deliveries are
 * counted by frames, or with -M by the last bytes of HEAD, for servers that put several into one.
 * An entry is PREFIX, HEAD, 19 digits of the monotonic clock in ns, MID, its number in the session,
 * TAIL, SUFFIX (-F -e -m -t -T); -b sends binary frames. In paths, headers, messages, PREFIX and HEAD
 * @S is the session, four digits; @0 a NUL byte; in PREFIX @L the payload's length, in decimal, and @V
 * that and 6 as MQTT writes lengths. A server that loses messages has them forgotten after 300 ms.
 * Prints one line of JSON. It is a client for measurements: the server is trusted.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { RBUF = 1 << 18, LIST = 16, STAMP = 19, MARK = 8, PRE = 1 << 16 };
enum { CONNECTING, HANDSHAKE, DIALOG, READY };

typedef struct { char *p; size_t n; } blob;
typedef struct {
    int fd, publisher, session, state, said;
    size_t hlen;                    /* bytes of a frame's header held in hdr */
    unsigned char hdr[10];
    uint64_t remain;                /* payload bytes of the current frame still to come */
    int counted;                    /* whether the current frame is a message */
    size_t held; char *text;        /* the current message, kept by publishers and in the dialog */
    size_t ntail; char tail[MARK];  /* the end of what was searched for marks */
    blob head; uint64_t published, acked;
    char *out; size_t outlen, outcap;
} conn;

static int port, sessions = 1, nsub = 100, window = 32, by_acks, by_marks, opcode = 1;
static double duration = 3, warmup = 1;
static const char *subpath = "/sub/@S", *pubpath = "/pub/@S", *prefix = "", *head = "", *mid = "", *tail = "", *suffix = "";
static const char *subhdr[LIST], *pubhdr[LIST], *subsay[LIST], *subhear[LIST], *pubsay[LIST], *pubhear[LIST];
static int nsubhdr, npubhdr, nsubsay, npubsay, pids[LIST], npid;

static int ep, measuring;
static char rbuf[RBUF], *entry;
static size_t entrylen;
static uint64_t delivered, bytes, published, acked, ready, lost, forgotten, stalls;
static uint64_t hist[64 * 32], nlat, maxlat;
static conn *subs, *publishers;

static uint64_t now_ns(void) {
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void die(const char *what) { fprintf(stderr, "load: %s: %s\n", what, strerror(errno)); exit(1); }

/* ---- latency: a histogram with 32 steps per power of two ---- */
static void record(uint64_t ns) {
    int e = 63 - __builtin_clzll(ns | 32);
    hist[(e - 5) * 32 + ((ns >> (e - 5)) & 31)]++; nlat++;
    if (ns > maxlat) maxlat = ns;
}
static double quantile_us(double q) {
    uint64_t want = q * nlat, sum = 0;
    for (int i = 0; i < 64 * 32; i++) if ((sum += hist[i]) > want) return (double)((32ull + (i & 31)) << (i >> 5)) / 1000;
    return 0;
}

/* ---- sending ---- */
static blob filled(const char *from, int session, size_t length) {
    char *p = malloc(strlen(from) * 4 + 64), *to = p;       /* freed by whoever sends it */
    for (; *from; from++) {
        if (*from != '@') { *to++ = *from; continue; }
        switch (*++from) {
        case 'S': to += sprintf(to, "%04d", session); break;
        case '0': *to++ = 0; break;
        case 'L': to += sprintf(to, "%zu", length); break;
        case 'V': { size_t v = length + 6; do { *to++ = (v & 127) | (v > 127 ? 128 : 0); v >>= 7; } while (v); break; }
        default: *to++ = '@'; from--;
        }
    }
    *to = 0;
    return (blob){ p, to - p };
}
static void watch(conn *c, int op) {
    struct epoll_event e = { .events = EPOLLIN | (c->outlen || c->state == CONNECTING ? EPOLLOUT : 0), .data.ptr = c };
    epoll_ctl(ep, op, c->fd, &e);
}
static void flush_out(conn *c) {
    size_t done = 0;
    while (done < c->outlen) {
        ssize_t n = send(c->fd, c->out + done, c->outlen - done, MSG_NOSIGNAL);
        if (n < 0) { if (errno == EAGAIN) break; die("send"); }
        done += n;
    }
    memmove(c->out, c->out + done, c->outlen - done); c->outlen -= done;
}
static void put(conn *c, const void *p, size_t n) {
    if (c->outlen + n > c->outcap) { c->outcap = (c->outlen + n) * 2; c->out = realloc(c->out, c->outcap); }
    memcpy(c->out + c->outlen, p, n); c->outlen += n;
}
static void put_header(conn *c, size_t n) {                 /* masked with zeros: legal, and costs us nothing */
    unsigned char h[14] = { 0x80 | opcode }; int k = 1;
    if (n < 126) h[k++] = 0x80 | n;
    else if (n < 65536) { h[k++] = 0xfe; h[k++] = n >> 8; h[k++] = n; }
    else { h[k++] = 0xff; for (int i = 7; i >= 0; i--) h[k++] = (uint64_t)n >> (8 * i); }
    memset(h + k, 0, 4);
    put(c, h, k + 4);
}
static void publish(conn *c) {
    published++; c->published++;
    memcpy(entry, c->head.p, c->head.n);
    size_t n = c->head.n;
    n += sprintf(entry + n, "%019llu%s%llu%s", (unsigned long long)now_ns(), mid, (unsigned long long)c->published, tail);
    entrylen = n;
    blob before = filled(prefix, c->session, n);
    put_header(c, before.n + n + strlen(suffix));
    put(c, before.p, before.n); put(c, entry, n); put(c, suffix, strlen(suffix));
    free(before.p);
}

/* ---- receiving ---- */
static void say_next(conn *c) {                             /* the next prepared message, or ready */
    const char **say = c->publisher ? pubsay : subsay; int n = c->publisher ? npubsay : nsubsay;
    if (c->said == n) { c->state = READY; ready++; return; }
    blob line = filled(say[c->said++], c->session, 0);
    if (line.n) { put_header(c, line.n); put(c, line.p, line.n); flush_out(c); }
    free(line.p);
}
static void message(conn *c) {                              /* a whole message that was kept */
    c->text[c->held] = 0;
    if (c->state == DIALOG) {
        const char **hear = c->publisher ? pubhear : subhear;
        if (strstr(c->text, "\"error\":")) { fprintf(stderr, "load: refused: %s\n", c->text); exit(1); }
        if (strstr(c->text, hear[c->said - 1])) say_next(c);
    } else if (by_acks && c->publisher) {
        const char *seq = strstr(c->text, "\"uplink/ack\"") ? strstr(c->text, "\"seq\":") : NULL;
        uint64_t n = seq ? strtoull(seq + 6, NULL, 10) : 0;
        if (n > c->acked) { acked += n - c->acked; c->acked = n; }
    }
}
static void stamp(const char *p, const char *end, uint64_t now) {
    if (!measuring || end - p < STAMP) return;
    uint64_t t = 0;
    for (const char *d = p; d < p + STAMP; d++) { if (*d < '0' || *d > '9') return; t = t * 10 + (*d - '0'); }
    record(now - t);
}
static const char *after_mark(const char *p, size_t n) {
    blob *h = &publishers->head;
    const char *q = memmem(p, n, h->p + h->n - MARK, MARK);
    return q ? q + MARK : NULL;
}
static void marks(conn *c, const char *p, size_t n, uint64_t now) {
    const char *end = p + n, *q; size_t skip = entrylen - publishers->head.n;
    if (c->ntail) {                                         /* a mark that was cut in two */
        char both[2 * MARK]; size_t k = n < MARK - 1 ? n : MARK - 1;
        memcpy(both, c->tail, c->ntail); memcpy(both + c->ntail, p, k);
        if (after_mark(both, c->ntail + k)) delivered++;
    }
    while ((q = after_mark(p, end - p))) {
        delivered++; stamp(q, end, now);
        if ((size_t)(end - q) <= skip) { p = end; break; }
        p = q + skip;
    }
    c->ntail = end - p < MARK - 1 ? end - p : MARK - 1;
    memcpy(c->tail, end - c->ntail, c->ntail);
}
static void closed(conn *c, const unsigned char *p, size_t n) {
    lost++;
    if (c->state == READY) { epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, 0); return; }
    int code = n > 1 ? p[0] << 8 | p[1] : 0;
    fprintf(stderr, "load: closed with %d %.*s\n", code, n > 2 ? (int)n - 2 : 0, p + 2);
    exit(1);
}
static void frames(conn *c, const char *p, size_t n, uint64_t now) {
    while (n) {
        if (!c->counted) {                                  /* a header */
            while (n && c->hlen < 2) { c->hdr[c->hlen++] = *p++; n--; }
            if (c->hlen < 2) return;
            size_t len = c->hdr[1] & 127, need = len == 126 ? 4 : len == 127 ? 10 : 2;
            while (n && c->hlen < need) { c->hdr[c->hlen++] = *p++; n--; }
            if (c->hlen < need) return;
            if (need > 2) { len = 0; for (size_t i = 2; i < need; i++) len = len << 8 | c->hdr[i]; }
            c->hlen = c->held = 0; c->remain = len;
            if ((c->hdr[0] & 15) == 8) { closed(c, (const void *)p, n < len ? n : len); return; }
            c->counted = (c->hdr[0] & 15) > 8 ? 3 : 1;      /* 1: a message, 3: a ping or pong */
            if (measuring && c->counted == 1 && !c->publisher && !by_marks) {
                size_t look = n < len ? n : len, most = publishers->head.n + 64;
                const char *q = after_mark(p, look < most ? look : most);
                if (q) stamp(q, p + look, now);
            }
        }
        size_t k = n < c->remain ? n : c->remain;
        if (c->state == READY && !c->publisher) { if (by_marks && c->counted == 1) marks(c, p, k, now); }
        else if (c->counted == 1) {
            size_t room = PRE - 1 - c->held, keep = k < room ? k : room;
            memcpy(c->text + c->held, p, keep); c->held += keep;
        }
        c->remain -= k; p += k; n -= k;
        if (c->remain) return;
        if (c->counted == 1) { if (c->state == READY && !c->publisher) delivered += !by_marks; else message(c); }
        c->counted = 0;
    }
}
static void readable(conn *c) {
    ssize_t r = recv(c->fd, rbuf, RBUF, 0);
    if (r < 0 && errno == EAGAIN) return;
    if (r <= 0) { closed(c, NULL, 0); return; }
    const char *p = rbuf; size_t n = r;
    if (c->state == HANDSHAKE) {                            /* its answer is small: it comes in one piece */
        char *end = memmem(p, n, "\r\n\r\n", 4);
        if (!end || memcmp(p, "HTTP/1.1 101", 12)) { fprintf(stderr, "load: refused: %.*s\n", (int)(n < 500 ? n : 500), p); exit(1); }
        n -= end + 4 - p; p = end + 4;
        c->state = DIALOG; c->text = malloc(PRE);
        say_next(c);
    }
    if (measuring && !c->publisher) bytes += n;
    frames(c, p, n, now_ns());
    if (c->state == READY && !c->publisher && c->text) { free(c->text); c->text = NULL; }
}
static void put_request(conn *c) {
    char h[8192]; const char **more = c->publisher ? pubhdr : subhdr;
    int n = snprintf(h, sizeof h, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n", c->publisher ? pubpath : subpath, port);
    for (int i = 0; i < (c->publisher ? npubhdr : nsubhdr); i++) n += snprintf(h + n, sizeof h - n, "%s\r\n", more[i]);
    snprintf(h + n, sizeof h - n, "\r\n");
    blob request = filled(h, c->session, 0);
    put(c, request.p, request.n); free(request.p);
}
static void writable(conn *c) {
    if (c->state == CONNECTING) {
        int err = 0; socklen_t l = sizeof err; getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &l);
        if (err) { errno = err; die("connect"); }
        put_request(c); c->state = HANDSHAKE;
    }
    flush_out(c);
    watch(c, EPOLL_CTL_MOD);
}
static void turn(int64_t timeout_ns) {
    static struct epoll_event ev[512];
    struct timespec t = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
    int n = epoll_pwait2(ep, ev, 512, &t, NULL);
    for (int i = 0; i < n; i++) {
        conn *c = ev[i].data.ptr;
        if (ev[i].events & EPOLLOUT) writable(c);
        if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
    }
}

/* ---- set-up ---- */
static void start(conn *c, int publisher, int session) {
    *c = (conn){ .publisher = publisher, .session = session, .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) };
    if (c->fd < 0) die("socket");
    if (publisher) c->head = filled(head, session, 0);
    int one = 1; setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (connect(c->fd, (void *)&a, sizeof a) < 0 && errno != EINPROGRESS) die("connect");
    watch(c, EPOLL_CTL_ADD);
}
static void start_all(void) {                               /* publishers first: they make the sessions */
    uint64_t end = now_ns() + 30000000000ull; int total = sessions * (1 + nsub);
    for (int i = 0; (int)ready < total && now_ns() < end;) {
        if (i < total && i - (int)ready < 64 && (i < sessions || (int)ready >= sessions)) {
            if (i < sessions) start(&publishers[i], 1, i); else start(&subs[i - sessions], 0, (i - sessions) / nsub);
            i++;
        } else turn(10000000);
    }
    if ((int)ready < total) { fprintf(stderr, "load: %llu of %d connections ready in 30 s\n", (unsigned long long)ready, total); exit(1); }
}

/* ---- the server's side ---- */
static double server_cpu(void) {                            /* seconds, of all threads of -k PID */
    double s = 0;
    for (int i = 0; i < npid; i++) {
        char f[320]; snprintf(f, sizeof f, "/proc/%d/task", pids[i]);
        DIR *d = opendir(f); struct dirent *t; unsigned long long ns;
        while (d && (t = readdir(d))) {
            if (t->d_name[0] == '.') continue;
            snprintf(f, sizeof f, "/proc/%d/task/%s/schedstat", pids[i], t->d_name);
            FILE *h = fopen(f, "r");
            if (h) { if (fscanf(h, "%llu", &ns) == 1) s += ns / 1e9; fclose(h); }
        }
        if (d) closedir(d);
    }
    return s;
}
static double own_cpu(void) {
    struct rusage r; getrusage(RUSAGE_SELF, &r);
    return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static int64_t missing(void) { return (int64_t)(published * nsub - delivered - forgotten); }
static int keeps_window(void) {                             /* whether there is room for one more */
    if (by_acks && published - acked >= (uint64_t)window) return 0;
    return missing() + nsub <= (int64_t)window * nsub;
}
static void keep_in_flight(void) {
    while (keeps_window()) publish(&publishers[published % sessions]);
    for (conn *p = publishers; p < publishers + sessions; p++)
        if (p->outlen) { flush_out(p); if (p->outlen) watch(p, EPOLL_CTL_MOD); }
}

static void options(int argc, char **argv) {
    int o;
    while ((o = getopt(argc, argv, "p:x:n:P:Q:h:g:s:S:j:J:F:e:m:t:T:abMw:d:u:k:")) > 0) switch (o) {
        case 'p': port = atoi(optarg); break;        case 'x': sessions = atoi(optarg); break;
        case 'n': nsub = atoi(optarg); break;        case 'b': opcode = 2; break;
        case 'P': subpath = optarg; break;           case 'Q': pubpath = optarg; break;
        case 'h': subhdr[nsubhdr++] = optarg; break; case 'g': pubhdr[npubhdr++] = optarg; break;
        case 's': subsay[nsubsay++] = optarg; break; case 'S': subhear[nsubsay - 1] = optarg; break;
        case 'j': pubsay[npubsay++] = optarg; break; case 'J': pubhear[npubsay - 1] = optarg; break;
        case 'F': prefix = optarg; break;            case 'T': suffix = optarg; break;
        case 'e': head = optarg; break;              case 'm': mid = optarg; break;
        case 't': tail = optarg; break;              case 'a': by_acks = 1; break;
        case 'M': by_marks = 1; break;               case 'w': window = atoi(optarg); break;
        case 'd': duration = atof(optarg); break;    case 'u': warmup = atof(optarg); break;
        case 'k': pids[npid++] = atoi(optarg); break;
        default: exit(2);
    }
    entry = malloc(strlen(head) + STAMP + strlen(mid) + 64 + strlen(tail));
}

int main(int argc, char **argv) {
    options(argc, argv);
    ep = epoll_create1(0);
    subs = calloc(nsub * sessions, sizeof *subs); publishers = calloc(sessions, sizeof *publishers);
    uint64_t t0 = now_ns();
    start_all();
    double setup = (now_ns() - t0) / 1e9;

    uint64_t begin = now_ns(), from = begin + warmup * 1e9, stop = from + duration * 1e9, t;
    uint64_t base = 0, base_published = 0, last = begin, last_delivered = 0;
    double cpu = 0, own = 0;
    while ((t = now_ns()) < stop) {
        if (!measuring && t >= from) {
            measuring = 1; from = t; base = delivered; base_published = published;
            cpu = server_cpu(); own = own_cpu();
        }
        if (delivered != last_delivered) { last_delivered = delivered; last = t; }
        else if (t - last > 300000000) { stalls++; last = t; if (!by_acks) forgotten += missing(); }
        keep_in_flight();
        turn(1000000);
    }
    double seconds = (now_ns() - from) / 1e9, n = delivered - base, entries = published - base_published;
    cpu = server_cpu() - cpu; own = own_cpu() - own;
    uint64_t end = now_ns() + 3000000000ull;                /* what is under way must arrive */
    while ((missing() || (by_acks && acked < published)) && now_ns() < end) turn(10000000);
    printf("{\"deliveries_per_second\":%.0f,\"entries_per_second\":%.0f,\"mb_per_second\":%.1f,\"server_cpu\":%.3f,\"client_cpu\":%.3f,"
        "\"deliveries_per_cpu_second\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"max_us\":%.0f,\"setup_seconds\":%.3f,\"stalls\":%llu,\"closed\":%llu,"
        "\"missing\":%lld}\n", n / seconds, entries / seconds, bytes / seconds / 1e6, cpu / seconds, own / seconds, cpu > 0 ? n / cpu : 0,
        quantile_us(.5), quantile_us(.99), maxlat / 1e3, setup, (unsigned long long)stalls, (unsigned long long)lost,
        (long long)(published * nsub) - (long long)delivered);
    return 0;
}
