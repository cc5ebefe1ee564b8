/* paced: one connector and its dashboards, entries at a fixed rate; or dashboards that only stay.
 *
 * Latency counts from the moment an entry was due, not from when it was sent: a server that stalls
 * pays for every entry that was due meanwhile (no coordinated omission). SESSIONS sessions are
 * published round robin; each (or the first WATCHED) has DASHBOARDS dashboards, and CONSOLES more watch all sessions.
 *
 * After its handshake a connection says the lines of its dialog (-J connector, -S dashboard), each
 * after the answer to the one before it: a message with "id":N for the Nth line. In a dashboard's
 * lines and in HEAD @S is the session's number, four digits; a console says a line with @S once for
 * every session. @I is the number of the line. An entry is HEAD, 19 digits of the monotonic clock
 * in ns when it was due, MID, its number in the session, TAIL.
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
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { RBUF = 1 << 18, LIST = 16, STAMP = 19, KEEP = 1 << 16, OPENING = 64 };
enum { CONNECTOR, DASHBOARD, CONSOLE };
enum { CONNECTING, HANDSHAKE, DIALOG, READY };
typedef struct { char **at; int n; } lines;
typedef struct {
    int fd, kind, state, said, number, session;
    size_t hlen; unsigned char hdr[10];                     /* of a frame's header */
    uint64_t remain; int in_message;
    size_t held; char *text;                                /* the beginning of the current message */
    char *out; size_t outlen, outcap;
} conn;
typedef struct { uint64_t at[64 * 32], n, max; } histogram;

static int port, pubport, sessions = 1, watched, dashboards = 1, consoles, warm, pids[LIST], npid;
static double rate, duration = 3, warmup = 1;
static const char *subpath = "/sub", *pubpath = "/pub", *mid = "", *tail = "";
static const char *subhdr[LIST], *pubhdr[LIST]; static int nsubhdr, npubhdr;
static char *head = ""; static size_t headlen;
static lines sublines, publines, subheaders;

static int ep, measuring;
static char rbuf[RBUF];
static uint64_t ready, published, delivered[3], lost, *acked;
static histogram latency[3];

static uint64_t now_ns(void) {
    struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void fail(const char *what, const char *why) { fprintf(stderr, "paced: %s: %s\n", what, why); exit(1); }

static lines read_lines(const char *name) {
    FILE *f = fopen(name, "r"); if (!f) fail(name, strerror(errno));
    lines l = { 0 }; char *line = NULL; size_t cap = 0; ssize_t n;
    while ((n = getline(&line, &cap, f)) > 0) {
        if (line[n - 1] == '\n') line[n - 1] = 0;
        l.at = realloc(l.at, (l.n + 1) * sizeof *l.at); l.at[l.n++] = strdup(line);
    }
    fclose(f); free(line);
    return l;
}

/* ---- latency: 32 steps per power of two ---- */
static void record(histogram *h, uint64_t ns) {
    int e = 63 - __builtin_clzll(ns | 32);
    h->at[(e - 5) * 32 + ((ns >> (e - 5)) & 31)]++; h->n++;
    if (ns > h->max) h->max = ns;
}
static double quantile_us(histogram *h, double q) {
    uint64_t want = q * h->n, sum = 0;
    for (int i = 0; i < 64 * 32; i++) if ((sum += h->at[i]) > want) return (double)((32ull + (i & 31)) << (i >> 5)) / 1000;
    return 0;
}

/* ---- sending ---- */
static void watch(conn *c, int op) {
    struct epoll_event e = { .events = EPOLLIN | (c->outlen || c->state == CONNECTING ? EPOLLOUT : 0), .data.ptr = c };
    epoll_ctl(ep, op, c->fd, &e);
}
static void flush_out(conn *c) {
    size_t done = 0;
    while (done < c->outlen) {
        ssize_t n = send(c->fd, c->out + done, c->outlen - done, MSG_NOSIGNAL);
        if (n < 0) { if (errno == EAGAIN) break; fail("send", strerror(errno)); }
        done += n;
    }
    memmove(c->out, c->out + done, c->outlen - done); c->outlen -= done;
    if (!c->outlen && c->kind != CONNECTOR) { free(c->out); c->out = NULL; c->outcap = 0; }
}
static void put(conn *c, const void *p, size_t n) {
    if (c->outlen + n > c->outcap) { c->outcap = (c->outlen + n) * 2; c->out = realloc(c->out, c->outcap); }
    memcpy(c->out + c->outlen, p, n); c->outlen += n;
}
static void put_text(conn *c, const char *p, size_t n) {    /* masked with zeros: legal, and costs us nothing */
    unsigned char h[14] = { 0x81 }; int k = 1;
    if (n < 126) h[k++] = 0x80 | n;
    else if (n < 65536) { h[k++] = 0xfe; h[k++] = n >> 8; h[k++] = n; }
    else { h[k++] = 0xff; for (int i = 7; i >= 0; i--) h[k++] = (uint64_t)n >> (8 * i); }
    memset(h + k, 0, 4);
    put(c, h, k + 4); put(c, p, n);
}
static void filled(char *to, const char *from, int session, int line) {
    while (*from) {
        if (from[0] == '@' && from[1] == 'S') { to += sprintf(to, "%04d", session); from += 2; }
        else if (from[0] == '@' && from[1] == 'I') { to += sprintf(to, "%d", line); from += 2; }
        else *to++ = *from++;
    }
    *to = 0;
}
static void publish(conn *c, uint64_t due) {
    static char text[KEEP * 2];
    int session = published % sessions;
    filled(text, head, session, 0);
    int n = headlen;
    n += sprintf(text + n, "%019llu%s%llu%s", (unsigned long long)due, mid, (unsigned long long)(published / sessions + 1), tail);
    put_text(c, text, n); published++;
}

/* ---- the dialog ---- */
static void say_next(conn *c) {
    lines *l = c->kind == CONNECTOR ? &publines : &sublines;
    static char text[1 << 20];
    const char *line = NULL; int session = c->session;
    for (int i = 0, n = 0; i < l->n && !line; i++) {        /* the line of this number: some count once for each session */
        int times = c->kind == CONSOLE && strstr(l->at[i], "@S") ? sessions : 1;
        if (c->said < n + times) { line = l->at[i]; if (times > 1) session = c->said - n; }
        n += times;
    }
    if (!line) { c->state = READY; ready++; return; }
    c->said++;
    filled(text, line, session, c->said);
    put_text(c, text, strlen(text)); flush_out(c);
    if (c->outlen) watch(c, EPOLL_CTL_MOD);
}
static void message(conn *c) {
    c->text[c->held] = 0;
    if (c->state == DIALOG) {
        char hear[32]; sprintf(hear, "\"id\":%d,", c->said);
        if (strstr(c->text, "\"error\":{")) fail("refused", c->text);
        if (strstr(c->text, hear)) say_next(c);
    } else if (c->kind == CONNECTOR && strstr(c->text, "\"uplink/ping\"")) {
        static const char pong[] = "{\"jsonrpc\":\"2.0\",\"method\":\"uplink/pong\",\"params\":{\"n\":0}}";
        put_text(c, pong, sizeof pong - 1); flush_out(c);
    } else if (c->kind == CONNECTOR && strstr(c->text, "\"uplink/ack\"")) {
        const char *id = strstr(c->text, "\"sessionId\":\""), *seq = strstr(c->text, "\"seq\":");
        if (id && seq) { int s = atoi(strchr(id + 13, '"') - 4); if (s >= 0 && s < sessions) acked[s] = strtoull(seq + 6, NULL, 10); }
    } else if (c->kind != CONNECTOR) {
        delivered[c->kind]++;
        if (!measuring || c->held < headlen + STAMP || strncmp(c->text, head, strcspn(head, "@"))) return;
        uint64_t due = 0;
        for (const char *d = c->text + headlen; d < c->text + headlen + STAMP; d++) due = due * 10 + (*d - '0');
        record(&latency[c->kind], now_ns() - due);
    }
}

/* ---- receiving ---- */
static void closed(conn *c, const unsigned char *p, size_t n) {
    if (c->state != READY) { fprintf(stderr, "paced: closed with %d %.*s\n", n > 1 ? p[0] << 8 | p[1] : 0, n > 2 ? (int)n - 2 : 0, p + 2); exit(1); }
    lost++; epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, 0);
}
static void frames(conn *c, const char *p, size_t n) {
    while (n) {
        if (!c->remain) {
            while (n && c->hlen < 2) { c->hdr[c->hlen++] = *p++; n--; }
            if (c->hlen < 2) return;
            size_t len = c->hdr[1] & 127, need = len == 126 ? 4 : len == 127 ? 10 : 2;
            while (n && c->hlen < need) { c->hdr[c->hlen++] = *p++; n--; }
            if (c->hlen < need) return;
            if (need > 2) { len = 0; for (size_t i = 2; i < need; i++) len = len << 8 | c->hdr[i]; }
            c->hlen = c->held = 0; c->remain = len;
            if ((c->hdr[0] & 15) == 8) { closed(c, (const void *)p, n < len ? n : len); return; }
            c->in_message = (c->hdr[0] & 15) < 8;
            if (!len) { if (c->in_message) message(c); continue; }
        }
        size_t k = n < c->remain ? n : c->remain;
        if (c->in_message) {                                /* of an entry only the stamp is needed */
            size_t want = c->state == READY && c->kind != CONNECTOR ? headlen + STAMP : KEEP - 1;
            size_t room = c->held < want ? want - c->held : 0, keep = k < room ? k : room;
            memcpy(c->text + c->held, p, keep); c->held += keep;
        }
        c->remain -= k; p += k; n -= k;
        if (!c->remain && c->in_message) message(c);
    }
}
static void readable(conn *c) {
    ssize_t r = recv(c->fd, rbuf, RBUF, 0);
    if (r < 0 && errno == EAGAIN) return;
    if (r <= 0) { closed(c, NULL, 0); return; }
    const char *p = rbuf; size_t n = r;
    if (c->state == HANDSHAKE) {                            /* its answer is small: it comes in one piece */
        char *end = memmem(p, n, "\r\n\r\n", 4);
        if (!end || memcmp(p, "HTTP/1.1 101", 12)) { rbuf[r < 500 ? r : 500] = 0; fail("refused", rbuf); }
        n -= end + 4 - p; p = end + 4;
        c->state = DIALOG; c->text = malloc(KEEP);
        say_next(c);
    }
    frames(c, p, n);
    if (c->state == READY && c->kind != CONNECTOR && c->held == 0) c->text = realloc(c->text, headlen + STAMP + 1);
}
static void writable(conn *c) {
    if (c->state == CONNECTING) {
        int err = 0; socklen_t l = sizeof err; getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &l);
        if (err) fail("connect", strerror(err));
        int up = c->kind == CONNECTOR, n; char h[8192];
        n = snprintf(h, sizeof h, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n", up ? pubpath : subpath, port);
        for (int i = 0; i < (up ? npubhdr : nsubhdr); i++) n += snprintf(h + n, sizeof h - n, "%s\r\n", (up ? pubhdr : subhdr)[i]);
        if (!up && subheaders.n) n += snprintf(h + n, sizeof h - n, "%s\r\n", subheaders.at[c->number % subheaders.n]);
        n += snprintf(h + n, sizeof h - n, "\r\n");
        put(c, h, n); c->state = HANDSHAKE;
    }
    flush_out(c);
    watch(c, EPOLL_CTL_MOD);
}
static void turn(int64_t timeout_ns) {
    static struct epoll_event ev[512];
    if (timeout_ns < 0) timeout_ns = 0;
    struct timespec t = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
    int n = epoll_pwait2(ep, ev, 512, &t, NULL);
    for (int i = 0; i < n; i++) {
        conn *c = ev[i].data.ptr;
        if (ev[i].events & EPOLLOUT) writable(c);
        if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
    }
}

/* ---- set-up ---- */
static void start(conn *c, int kind, int number) {
    *c = (conn){ .kind = kind, .number = number, .session = number % watched, .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) };
    if (c->fd < 0) fail("socket", strerror(errno));
    int one = 1; setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons(kind == CONNECTOR && pubport ? pubport : port) };
    if (connect(c->fd, (void *)&a, sizeof a) < 0 && errno != EINPROGRESS) fail("connect", strerror(errno));
    watch(c, EPOLL_CTL_ADD);
}
static void open_all(conn *c, int kind, int from, int to) { /* never more than OPENING at once */
    uint64_t base = ready - from, end = now_ns() + 90000000000ull;
    for (int i = from; i < to || ready < base + to;) {
        if (now_ns() > end) fail("connections", "not ready in 90 s");
        if (i < to && i < (int)(ready - base) + OPENING) { start(&c[i], kind, i); i++; }
        else turn(10000000);
    }
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
static long rss_kib(void) {                                 /* of the first -k PID */
    char f[64], line[256]; long kib = 0;
    if (!npid) return 0;
    snprintf(f, sizeof f, "/proc/%d/status", pids[0]);
    FILE *h = fopen(f, "r");
    while (h && fgets(line, sizeof line, h)) if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    if (h) fclose(h);
    return kib;
}

static void options(int argc, char **argv) {
    int o;
    while ((o = getopt(argc, argv, "p:q:P:Q:x:y:n:a:w:h:g:H:S:J:e:m:t:r:d:u:k:")) > 0) switch (o) {
        case 'p': port = atoi(optarg); break;        case 'q': pubport = atoi(optarg); break;
        case 'P': subpath = optarg; break;           case 'Q': pubpath = optarg; break;
        case 'x': sessions = atoi(optarg); break;    case 'n': dashboards = atoi(optarg); break;
        case 'y': watched = atoi(optarg); break;
        case 'a': consoles = atoi(optarg); break;    case 'w': warm = atoi(optarg); break;
        case 'h': subhdr[nsubhdr++] = optarg; break; case 'g': pubhdr[npubhdr++] = optarg; break;
        case 'H': subheaders = read_lines(optarg); break;
        case 'S': sublines = read_lines(optarg); break; case 'J': publines = read_lines(optarg); break;
        case 'e': head = optarg; break;              case 'm': mid = optarg; break;
        case 't': tail = optarg; break;              case 'r': rate = atof(optarg); break;
        case 'd': duration = atof(optarg); break;    case 'u': warmup = atof(optarg); break;
        case 'k': pids[npid++] = atoi(optarg); break;
        default: exit(2);
    }
    if (!watched) watched = sessions;
    char text[KEEP]; filled(text, head, 0, 0); headlen = strlen(text);
    acked = calloc(sessions, sizeof *acked);
}

int main(int argc, char **argv) {
    options(argc, argv);
    prctl(PR_SET_TIMERSLACK, 1);
    ep = epoll_create1(0);
    int n = watched * dashboards;
    conn *subs = calloc(n + 1, sizeof *subs), *all = calloc(consoles + 1, sizeof *all), *publisher = calloc(1, sizeof *publisher);
    open_all(publisher, CONNECTOR, 0, 1);                   /* first: it makes the sessions */
    open_all(all, CONSOLE, 0, consoles);
    open_all(subs, DASHBOARD, 0, warm);
    long rss = rss_kib(); double cpu = server_cpu(), setup = now_ns() / 1e9;
    open_all(subs, DASHBOARD, warm, n);
    setup = now_ns() / 1e9 - setup; double setup_cpu = server_cpu() - cpu;

    uint64_t begin = now_ns(), from = begin + warmup * 1e9, stop = from + duration * 1e9, t;
    cpu = 0;
    while ((t = now_ns()) < stop) {
        if (!measuring && t >= from) { measuring = 1; cpu = server_cpu(); }
        uint64_t due = stop;
        while (rate && (due = begin + published * (1e9 / rate)) <= t) publish(publisher, due);
        if (publisher->outlen) { flush_out(publisher); if (publisher->outlen) watch(publisher, EPOLL_CTL_MOD); }
        uint64_t wake = due < stop ? due : stop;
        if (!measuring && wake > from) wake = from;
        turn((int64_t)(wake - now_ns()));
    }
    double seconds = (now_ns() - from) / 1e9;
    cpu = server_cpu() - cpu;
    long after = rss_kib();
    uint64_t wanted = 0; for (int i = 0; i < watched; i++) wanted += (published / sessions + (published % sessions > (uint64_t)i)) * dashboards;
    uint64_t end = now_ns() + 5000000000ull;
    while ((delivered[DASHBOARD] < wanted || delivered[CONSOLE] < published * consoles) && now_ns() < end) turn(10000000);
    uint64_t stored = 0; for (int i = 0; i < sessions; i++) stored += acked[i];
    while (publines.n && stored < published && now_ns() < end) { turn(10000000); stored = 0; for (int i = 0; i < sessions; i++) stored += acked[i]; }
    histogram *d = &latency[DASHBOARD], *c = &latency[CONSOLE];
    printf("{\"entries_per_second\":%.0f,\"server_cpu\":%.4f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"p999_us\":%.0f,\"max_us\":%.0f,"
        "\"console_p50_us\":%.0f,\"console_p99_us\":%.0f,\"console_p999_us\":%.0f,\"connections\":%d,\"setup_seconds\":%.4f,\"setup_cpu\":%.4f,"
        "\"rss_before_kib\":%ld,\"rss_kib\":%ld,\"published\":%llu,\"stored\":%llu,\"closed\":%llu,\"missing\":%lld}\n",
        rate, cpu / seconds, quantile_us(d, .5), quantile_us(d, .99), quantile_us(d, .999), d->max / 1e3,
        quantile_us(c, .5), quantile_us(c, .99), quantile_us(c, .999), n - warm, setup, setup_cpu, rss, after,
        (unsigned long long)published, (unsigned long long)stored, (unsigned long long)lost,
        (long long)(wanted + published * consoles) - (long long)(delivered[DASHBOARD] + delivered[CONSOLE]));
    return 0;
}
