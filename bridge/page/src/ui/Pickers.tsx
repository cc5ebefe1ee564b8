import type { Conversation } from "../conversation";
import { usePage } from "../page";
import type { ConfigOption, Session } from "../wire";
import { words } from "../words";

interface Props {
  session: Session;
  conversation: Conversation;
}

// Of its other settings, those that give the agent no more rights; the machine refuses the rest.
const OPEN_CATEGORIES = new Set(["model", "thought_level"]);

/** In which mode the agent works, and those that may be chosen from here. */
export function ModePicker({ session, conversation }: Props) {
  const { store } = usePage();
  const { modes } = session;
  if (!modes) return null;
  const current = conversation.view.value.mode ?? modes.currentModeId;
  const allowed = new Set(store.may("operator") ? store.agentOf(session.agent)?.modes : []);
  const chosen = modes.availableModes.find((mode) => mode.id === current);
  const offered = modes.availableModes.filter(
    (mode) => mode.id === current || allowed.has(mode.id),
  );
  if (offered.length < 2 || session.state === "ended") {
    return (
      <span class="picker" title={chosen?.description ?? undefined}>
        <span>{words.session.mode}</span>
        <output>{chosen?.name ?? current}</output>
      </span>
    );
  }
  return (
    <label class="picker" title={chosen?.description ?? undefined}>
      <span>{words.session.mode}</span>
      <select
        value={current}
        disabled={conversation.asking.value}
        onChange={(event) => void conversation.setMode(event.currentTarget.value)}
      >
        {offered.map((mode) => (
          <option key={mode.id} value={mode.id}>
            {mode.name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The agent's model and how hard it thinks; folded away until asked for. */
export function OptionPickers({ session, conversation }: Props) {
  const { store } = usePage();
  const all = conversation.view.value.configOptions ?? session.configOptions ?? [];
  const options = all.filter((option) => OPEN_CATEGORIES.has(option.category ?? ""));
  if (options.length === 0 || !store.may("operator")) return null;
  return (
    <details class="options-more">
      <summary>{words.session.options}</summary>
      <div class="pickers">
        {options.map((option) => (
          <OptionPicker key={option.id} option={option} conversation={conversation} />
        ))}
      </div>
    </details>
  );
}

function OptionPicker({
  option,
  conversation,
}: {
  option: ConfigOption;
  conversation: Conversation;
}) {
  const set = (value: string | boolean) => void conversation.setConfigOption(option.id, value);
  if (option.type === "boolean") {
    return (
      <label class="pick" title={option.description ?? undefined}>
        <input
          type="checkbox"
          checked={option.currentValue === true}
          onChange={(event) => set(event.currentTarget.checked)}
        />
        <span>{option.name}</span>
      </label>
    );
  }
  if (!option.options?.length) return null;
  return (
    <label class="picker" title={option.description ?? undefined}>
      <span>{option.name}</span>
      <select
        value={String(option.currentValue)}
        disabled={conversation.asking.value}
        onChange={(event) => set(event.currentTarget.value)}
      >
        {option.options.map((one) => (
          <option key={one.value} value={one.value}>
            {one.name}
          </option>
        ))}
      </select>
    </label>
  );
}
