import { now } from "../clock";
import type { Conversation } from "../conversation";
import { usePage } from "../page";
import { go } from "../route";
import { sessionState, sessionTitle, shortPath } from "../states";
import type { Session as SessionRecord } from "../wire";
import { words } from "../words";
import { Bar } from "./Bar";
import { Composer } from "./Composer";
import { ModePicker, OptionPickers } from "./Pickers";
import { Transcript } from "./Transcript";

/** One session: what was said and done, as it happens, and what I say into it. */
export function Session({ id, beside = false }: { id: string; beside?: boolean }) {
  const page = usePage();
  const conversation = page.conversation(id);
  const session = page.store.sessions.value.get(id);
  return (
    <section class="screen session" key={id} aria-label={words.places.sessions}>
      <Bar
        title={session ? sessionTitle(session) : ""}
        back={beside ? undefined : { at: "sessions" }}
      >
        {session && <State session={session} />}
      </Bar>
      {session && <Facts session={session} conversation={conversation} />}
      <Transcript conversation={conversation} sessionId={id} />
      <footer class="foot">
        <WaitingHere sessionId={id} beside={beside} />
        {session && <Composer session={session} conversation={conversation} />}
      </footer>
    </section>
  );
}

function State({ session }: { session: SessionRecord }) {
  const { store } = usePage();
  const state = sessionState(session, now.value + store.skew.value);
  return (
    <span class="badge">
      <span class={`dot ${state.mark}`} />
      {state.text}
    </span>
  );
}

interface FactsProps {
  session: SessionRecord;
  conversation: Conversation;
}

function Facts({ session, conversation }: FactsProps) {
  const { store } = usePage();
  const agent = store.agentOf(session.agent);
  const facts = [agent?.title || agent?.name, agent?.host, shortPath(session.cwd)];
  return (
    <div class="session-facts">
      <span class="sub" dir="auto" title={session.cwd}>
        {facts.filter(Boolean).join(" · ")}
      </span>
      <ModePicker session={session} conversation={conversation} />
      <OptionPickers session={session} conversation={conversation} />
    </div>
  );
}

// On a desk the question is beside; on a phone this leads there.
function WaitingHere({ sessionId, beside }: { sessionId: string; beside: boolean }) {
  const { store } = usePage();
  const here = store.waiting.value.filter((one) => one.sessionId === sessionId);
  const first = here[0];
  if (!first || (beside && here.length === 1)) return null;
  return (
    <button type="button" class="btn asks" onClick={() => go({ at: "question", id: first.id })}>
      {words.session.jump(here.length)}
    </button>
  );
}
