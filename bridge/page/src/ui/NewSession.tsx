import { useState } from "preact/hooks";
import { duration } from "../age";
import { now } from "../clock";
import { keepDraft } from "../draft";
import { usePage } from "../page";
import { goInstead } from "../route";
import { attachmentState, isReachable } from "../states";
import type { Agent } from "../wire";
import { words } from "../words";
import { takeShared } from "../worker";
import { Bar } from "./Bar";

/** Start a session: which agent, in which of the folders its connector allows. */
export function NewSession() {
  const { store } = usePage();
  const me = store.me.value;
  const agents = [...store.agents.value.values()];
  return (
    <section class="screen" aria-label={words.newSession.heading}>
      <Bar title={words.newSession.heading} back={{ at: "sessions" }} />
      <div class="scroll">
        {me && !store.may("operator") ? (
          <p class="empty">{words.newSession.operator(me.role, me.tenant)}</p>
        ) : agents.some((agent) => isReachable(agent.attachment)) ? (
          <Choose agents={agents} />
        ) : (
          <p class="empty">{store.known.value ? words.newSession.noAgent : words.inbox.loading}</p>
        )}
      </div>
    </section>
  );
}

function Choose({ agents }: { agents: Agent[] }) {
  const page = usePage();
  const [chosen, setChosen] = useState(agents.find((one) => isReachable(one.attachment))?.id ?? "");
  const agent = agents.find((one) => one.id === chosen);
  const [root, setRoot] = useState("");
  const [below, setBelow] = useState("");
  const [since, setSince] = useState<number | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const folder = agent?.roots.includes(root) ? root : (agent?.roots[0] ?? "");

  const start = async (event: SubmitEvent) => {
    event.preventDefault();
    setSince(Date.now());
    setProblem(null);
    try {
      const id = await page.newSession(chosen, joined(folder, below));
      const shared = await takeShared();
      if (shared) keepDraft(id, shared);
      goInstead({ at: "session", id });
    } catch (error) {
      setProblem((error as Error).message);
    } finally {
      setSince(null);
    }
  };

  return (
    <form class="form" onSubmit={(event) => void start(event)}>
      <fieldset class="field" disabled={since !== null}>
        <legend>{words.newSession.agent}</legend>
        {agents.map((one) => (
          <AgentChoice
            key={one.id}
            agent={one}
            checked={one.id === chosen}
            onPick={() => setChosen(one.id)}
          />
        ))}
      </fieldset>
      {agent && agent.roots.length === 0 ? (
        <p class="note">{words.newSession.noRoots}</p>
      ) : (
        <fieldset class="field" disabled={since !== null}>
          <label for="new-root">{words.newSession.folder}</label>
          <select
            id="new-root"
            value={folder}
            onChange={(event) => setRoot(event.currentTarget.value)}
          >
            {agent?.roots.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
          <label for="new-below">{words.newSession.below}</label>
          <input
            id="new-below"
            value={below}
            placeholder={words.newSession.belowHint}
            autocapitalize="off"
            spellcheck={false}
            onInput={(event) => setBelow(event.currentTarget.value)}
          />
        </fieldset>
      )}
      {problem && (
        <p class="problem" role="alert">
          {words.newSession.failed(problem)}
        </p>
      )}
      <button type="submit" class="btn go" disabled={since !== null || !folder}>
        {since === null
          ? words.newSession.start
          : words.newSession.starting(duration(now.value - since))}
      </button>
      {since !== null && <p class="note">{words.newSession.startingHint}</p>}
    </form>
  );
}

interface AgentChoiceProps {
  agent: Agent;
  checked: boolean;
  onPick: () => void;
}

function AgentChoice({ agent, checked, onPick }: AgentChoiceProps) {
  const { store } = usePage();
  const state = attachmentState(agent.attachment, now.value + store.skew.value);
  return (
    <label class="pick">
      <input
        type="radio"
        name="agent"
        checked={checked}
        disabled={!isReachable(agent.attachment)}
        onChange={onPick}
      />
      <span>
        {agent.title || agent.name}
        <small>
          {agent.host} · {state.text}
        </small>
      </span>
    </label>
  );
}

function joined(root: string, below: string): string {
  const rest = below.trim().replace(/^\/+|\/+$/g, "");
  return rest ? `${root.replace(/\/$/, "")}/${rest}` : root;
}
