import { duration, instant } from "../age";
import { now } from "../clock";
import type { Link } from "../connection";
import { capital } from "../outcome";
import { usePage } from "../page";
import { words } from "../words";

/** Whether the page is live; if not, why, since when, and what happens next. */
export function Badge() {
  const { store } = usePage();
  const link = store.link.value;
  const mark = link.state === "live" ? "ok" : link.state === "stopped" ? "bad" : "warn";
  return (
    <span class="badge" data-link={link.state}>
      <span class={`dot ${mark}`} />
      <span>{badgeWord(link)}</span>
    </span>
  );
}

/** The whole story, under the bar, while the page is not live. */
export function LinkTrouble() {
  const { store, connection } = usePage();
  const link = store.link.value;
  if (link.state === "live" && store.storeTrouble.value) return <StoreTrouble />;
  if (link.state === "live" || link.state === "connecting" || link.state === "signed-out")
    return null;
  const reason = words.link.reasons[link.reason] ?? link.reason;
  return (
    <div class="trouble" role="status">
      <p>
        {capital(link.state === "stopped" ? words.link.stopped : words.link.reconnecting)}: {reason}
        {link.state === "reconnecting" && `, ${times(link, store.lastLive.value)}`}.
        {store.known.value && ` ${words.link.old}`}
      </p>
      {link.state === "stopped" ? (
        <button type="button" class="btn small" onClick={() => location.reload()}>
          {words.link.reload}
        </button>
      ) : (
        link.next !== null && (
          <button type="button" class="btn small" onClick={() => connection.check()}>
            {words.link.tryNow}
          </button>
        )
      )}
    </div>
  );
}

/** That nothing can be stored at present; what is shown may be seen by nobody later. */
function StoreTrouble() {
  const { store } = usePage();
  const since = instant(store.storeTrouble.value?.since);
  const age = since === null ? "" : duration(now.value + store.skew.value - since);
  return (
    <div class="trouble" role="status">
      <p>{words.link.storeTrouble(age)}</p>
    </div>
  );
}

function badgeWord(link: Link): string {
  if (link.state === "live") return words.link.live;
  if (link.state === "connecting") return words.link.connecting;
  return link.state === "reconnecting" ? words.link.reconnecting : words.link.stopped;
}

function times(link: Link & { state: "reconnecting" }, lastLive: number | null): string {
  const present = now.value;
  const last = lastLive === null ? "" : words.link.lastUpdate(duration(present - lastLive));
  const left = link.next === null ? 0 : Math.ceil((link.next - present) / 1000);
  const next = left > 0 ? words.link.nextTry(`${left} s`) : words.link.trying;
  return [last, next].filter(Boolean).join(", ");
}
