import { useEffect } from "preact/hooks";
import {
  ability,
  type Kind,
  minutesOf,
  type Notifications,
  timeOf,
  type Wish,
} from "../notifications";
import { usePage } from "../page";
import { words as all } from "../words";

const words = all.notifications;
const KINDS: Kind[] = ["question", "turn", "failure"];
const NIGHT = { begins: minutesOf("22:00"), ends: minutesOf("07:00"), utcOffset: 0 };

/** Notify this device or not, of what, how much of it, and when not; and a test of it. */
export function NotificationCard() {
  const { notifications } = usePage();
  useEffect(() => {
    void notifications.load();
  }, [notifications]);
  const can = ability();
  return (
    <section class="card pad notifications" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="note">{can === "ready" ? words.why : words[can]}</p>
      {can === "ready" && <Switch notifications={notifications} />}
      {notifications.here.value && <Wishes notifications={notifications} />}
      <Devices notifications={notifications} />
      {notifications.problem.value && (
        <p class="problem" role="alert">
          {notifications.problem.value}
        </p>
      )}
    </section>
  );
}

function Switch({ notifications }: { notifications: Notifications }) {
  const { here, busy } = notifications;
  const change = () => void (here.value ? notifications.turnOff() : notifications.turnOn());
  return (
    <button type="button" class="btn" disabled={busy.value} onClick={change}>
      {here.value ? words.off : words.on}
    </button>
  );
}

function Wishes({ notifications }: { notifications: Notifications }) {
  const wish = notifications.wish.value;
  const choose = (more: Partial<Wish>) => void notifications.choose({ ...wish, ...more });
  const kinds = (kind: Kind, on: boolean) =>
    KINDS.filter((one) => (one === kind ? on : wish.kinds.includes(one)));
  return (
    <>
      <fieldset class="field">
        <legend>{words.about}</legend>
        {KINDS.map((kind) => (
          <label key={kind} class="pick">
            <input
              type="checkbox"
              checked={wish.kinds.includes(kind)}
              onChange={(event) => choose({ kinds: kinds(kind, event.currentTarget.checked) })}
            />
            <span>{words.kinds[kind]}</span>
          </label>
        ))}
      </fieldset>
      <fieldset class="field">
        <legend>{words.shows}</legend>
        {(["little", "all"] as const).map((one) => (
          <label key={one} class="pick">
            <input
              type="radio"
              name="shows"
              checked={wish.shows === one}
              onChange={() => choose({ shows: one })}
            />
            <span>{words[one]}</span>
          </label>
        ))}
      </fieldset>
      <QuietHours wish={wish} choose={choose} />
    </>
  );
}

function QuietHours({ wish, choose }: { wish: Wish; choose: (more: Partial<Wish>) => void }) {
  const { quiet } = wish;
  return (
    <fieldset class="field">
      <legend class="aloud">{words.quiet}</legend>
      <label class="pick">
        <input
          type="checkbox"
          checked={quiet !== null}
          onChange={(event) => choose({ quiet: event.currentTarget.checked ? NIGHT : null })}
        />
        <span>{words.quiet}</span>
      </label>
      {quiet && (
        <div class="row">
          {(["begins", "ends"] as const).map((edge) => (
            <label key={edge}>
              {edge === "begins" ? words.quietFrom : words.quietTo}{" "}
              <input
                type="time"
                value={timeOf(quiet[edge])}
                onChange={(event) =>
                  choose({ quiet: { ...quiet, [edge]: minutesOf(event.currentTarget.value) } })
                }
              />
            </label>
          ))}
        </div>
      )}
    </fieldset>
  );
}

function Devices({ notifications }: { notifications: Notifications }) {
  const { state, attempts, busy } = notifications;
  if (!state.value?.subscriptions.length) return null;
  return (
    <>
      <button
        type="button"
        class="btn"
        disabled={busy.value}
        onClick={() => void notifications.test()}
      >
        {busy.value ? words.trying : words.tryIt}
      </button>
      <ul class="plain" aria-live="polite">
        {attempts.value?.map((one) => (
          <li key={one.id}>
            {words.attempt(
              one.device,
              one.status >= 200 && one.status < 300
                ? words.taken(one.tookMs)
                : words.refused(one.status, one.reason),
            )}
          </li>
        ))}
      </ul>
    </>
  );
}
