import { duration, instant } from "../age";
import { now } from "../clock";
import { usePage } from "../page";
import { attachmentState, isReachable } from "../states";
import type { Agent } from "../wire";
import { words } from "../words";
import { Badge } from "./Badge";
import { Bar } from "./Bar";

/** Every agent and its machine, with its true state. */
export function Fleet({ wide = false }: { wide?: boolean }) {
  const { store } = usePage();
  const agents = [...store.agents.value.values()].sort((a, b) => a.host.localeCompare(b.host));
  return (
    <section class="screen" aria-label={words.places.fleet}>
      <Bar title={words.places.fleet}>{!wide && <Badge />}</Bar>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: nothing in it takes the focus, so no key could scroll */}
      <section class="scroll" tabIndex={0} aria-label={words.fleet.agents}>
        {agents.length === 0 && (
          <p class="empty">{store.known.value ? words.fleet.none : words.inbox.loading}</p>
        )}
        <div class="fleet">
          {agents.map((agent) => (
            <AgentCard key={agent.id} agent={agent} />
          ))}
        </div>
      </section>
    </section>
  );
}

function AgentCard({ agent }: { agent: Agent }) {
  const { store } = usePage();
  const present = now.value + store.skew.value;
  const state = attachmentState(agent.attachment, present);
  const lastSeen = instant(agent.attachment.lastSeen);
  const sessions = store.sessionList.value.filter((one) => one.agent === agent.id);
  const waiting = store.waiting.value.filter((one) => one.agent === agent.id);
  return (
    <article class="card pad agent">
      <header>
        <b>{agent.title || agent.name}</b>
        <span class="badge">
          <span class={`dot ${state.mark}`} />
          {state.text}
        </span>
      </header>
      <dl class="facts">
        <dt>{words.fleet.machine}</dt>
        <dd>{[agent.host, agent.os].filter(Boolean).join(" · ")}</dd>
        <dt>{words.fleet.agent}</dt>
        <dd>{[agent.name, agent.version].filter(Boolean).join(" ")}</dd>
        {agent.roots.length > 0 && (
          <>
            <dt>{words.fleet.folders}</dt>
            <dd class="path">{agent.roots.join(", ")}</dd>
          </>
        )}
      </dl>
      <p class="note">
        {words.fleet.sessions(sessions.length)}
        {waiting.length > 0 && ` · ${words.fleet.questions(waiting.length)}`}
        {!isReachable(agent.attachment) &&
          lastSeen !== null &&
          ` · ${words.fleet.lastSeen(duration(present - lastSeen))}`}
      </p>
      {agent.login && (
        <div class="problem">
          <p>{words.fleet.login}</p>
          <pre>{agent.login}</pre>
        </div>
      )}
    </article>
  );
}
