import { type Signal, useSignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { ACTIONS, type Action, type DryRun, type Match, type RuleWish, tryRules } from "../admin";
import { usePage } from "../page";
import { words } from "../words/rules";
import { WouldHave } from "./WouldHave";

const TIMED = new Set<Action>(["expire", "escalate"]);

/** A small form for a rule; it is tried out before it holds. */
export function RuleForm({ make }: { make: (wish: RuleWish) => Promise<boolean> }) {
  const { store } = usePage();
  const action = useSignal<Action>("two_people");
  const minutes = useSignal(10);
  const risks = useSignal<string[]>([]);
  const tools = useSignal<string[]>([]);
  const hosts = useSignal<string[]>([]);
  const commands = useSignal("");
  const paths = useSignal("");
  const note = useSignal("");
  const isFirst = useSignal(false);
  const [tried, setTried] = useState<DryRun | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);

  const wish = (): RuleWish => ({
    action: action.value,
    match: filled({
      risks: risks.value,
      tools: tools.value,
      hosts: hosts.value,
      commands: lines(commands.value),
      paths: lines(paths.value),
    }),
    ...(TIMED.has(action.value) && { seconds: Math.round(minutes.value * 60) }),
    ...(note.value.trim() && { note: note.value.trim() }),
  });
  const busily = async (what: () => Promise<void>) => {
    setBusy(true);
    setProblem(null);
    try {
      await what();
    } catch (error) {
      setProblem((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const tryIt = () => busily(async () => setTried(await tryRules([wish()])));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    void busily(async () => {
      const position = isFirst.value ? { position: 0 } : {};
      if (!(await make({ ...wish(), ...position }))) return;
      setTried(null);
      for (const one of [risks, tools, hosts]) one.value = [];
      for (const one of [commands, paths, note]) one.value = "";
    });
  };
  const machines = [...new Set([...store.agents.value.values()].map((one) => one.host))];
  return (
    <form class="card pad form" aria-label={words.make} onSubmit={submit}>
      <h2>{words.make}</h2>
      <div class="field">
        <label for="rule-action">{words.action}</label>
        <select
          id="rule-action"
          value={action.value}
          onChange={(event) => {
            action.value = event.currentTarget.value as Action;
          }}
        >
          {ACTIONS.map((one) => (
            <option key={one} value={one}>
              {words.actions[one]}
            </option>
          ))}
        </select>
        {TIMED.has(action.value) && <Minutes minutes={minutes} />}
      </div>
      <p class="note">{words.about}</p>
      <Picks legend={words.risks} names={words.risk} chosen={risks} />
      <Picks legend={words.tools} names={words.tool} chosen={tools} />
      <Lines label={words.commands} hint={words.commandsHint} text={commands} />
      <Lines label={words.paths} hint={words.pathsHint} text={paths} />
      {machines.length > 1 && (
        <Picks
          legend={words.hosts}
          names={Object.fromEntries(machines.map((one) => [one, one]))}
          chosen={hosts}
        />
      )}
      <div class="field">
        <label for="rule-note">{words.note}</label>
        <input
          id="rule-note"
          maxLength={500}
          value={note.value}
          onInput={(event) => {
            note.value = event.currentTarget.value;
          }}
        />
      </div>
      <label class="pick">
        <input
          type="checkbox"
          checked={isFirst.value}
          onChange={(event) => {
            isFirst.value = event.currentTarget.checked;
          }}
        />
        <span>{words.first}</span>
      </label>
      {tried && <WouldHave tried={tried} />}
      {problem && (
        <p class="problem" role="alert">
          {words.failed(problem)}
        </p>
      )}
      <div class="options">
        <button type="button" class="btn" disabled={isBusy} onClick={() => void tryIt()}>
          {isBusy ? words.trying : words.try}
        </button>
        <button type="submit" class="btn go" disabled={isBusy}>
          {words.add}
        </button>
      </div>
    </form>
  );
}

function Minutes({ minutes }: { minutes: Signal<number> }) {
  return (
    <>
      <label for="rule-minutes">{words.minutes}</label>
      <input
        id="rule-minutes"
        type="number"
        min="1"
        max="525600"
        value={minutes.value}
        onInput={(event) => {
          minutes.value = Number(event.currentTarget.value);
        }}
      />
    </>
  );
}

interface PicksProps {
  legend: string;
  names: Record<string, string>;
  chosen: Signal<string[]>;
}

function Picks({ legend, names, chosen }: PicksProps) {
  const toggle = (name: string) => {
    const isIn = chosen.value.includes(name);
    chosen.value = isIn ? chosen.value.filter((one) => one !== name) : [...chosen.value, name];
  };
  return (
    <fieldset class="field">
      <legend>{legend}</legend>
      <div class="picks">
        {Object.entries(names).map(([name, label]) => (
          <label key={name} class="pick">
            <input
              type="checkbox"
              checked={chosen.value.includes(name)}
              onChange={() => toggle(name)}
            />
            <span>{label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function Lines({ label, hint, text }: { label: string; hint: string; text: Signal<string> }) {
  return (
    <label class="field">
      <b>{label}</b>
      <textarea
        class="lines"
        rows={2}
        placeholder={hint}
        spellcheck={false}
        autocapitalize="off"
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
    </label>
  );
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((one) => one.trim())
    .filter(Boolean);
}

function filled(match: Match): Match {
  return Object.fromEntries(Object.entries(match).filter(([, list]) => list.length > 0));
}
