import { now } from "../clock";
import { usePage } from "../page";
import { href, route } from "../route";
import { sessionState, sessionTitle, shortPath } from "../states";
import type { Session } from "../wire";
import { Age } from "./Age";
import { useNames } from "./useNames";

/** A session in a list: its name, whose it is, and its true state. */
export function SessionRow({ session, showHost = true }: { session: Session; showHost?: boolean }) {
  const { store } = usePage();
  const names = useNames(session.agent);
  const state = sessionState(session, now.value + store.skew.value);
  const at = route.value;
  const isHere = at.at === "session" && at.id === session.sessionId;
  const facts = [state.text, names.agent, showHost ? names.host : shortPath(session.cwd)];
  return (
    <a
      class="row"
      href={href({ at: "session", id: session.sessionId })}
      aria-current={isHere ? "page" : undefined}
      data-row
    >
      <span class={`dot ${state.mark}`} />
      <span class="two">
        <span dir="auto">{sessionTitle(session)}</span>
        <span class="sub">{facts.filter(Boolean).join(" · ")}</span>
      </span>
      <Age at={session.updatedAt} bare />
    </a>
  );
}
