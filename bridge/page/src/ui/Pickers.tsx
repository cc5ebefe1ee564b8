import type { Conversation } from "../conversation";
import type { ConfigOption, Session } from "../wire";
import { words } from "../words";

interface Props {
  session: Session;
  conversation: Conversation;
}

/** In which mode the agent works; only what it offers itself. */
export function ModePicker({ session, conversation }: Props) {
  const modes = session.modes;
  if (!modes || modes.availableModes.length < 2) return null;
  const current = conversation.view.value.mode ?? modes.currentModeId;
  const chosen = modes.availableModes.find((mode) => mode.id === current);
  return (
    <label class="picker" title={chosen?.description ?? undefined}>
      <span>{words.session.mode}</span>
      <select
        value={current}
        disabled={session.state === "ended"}
        onChange={(event) => void conversation.setMode(event.currentTarget.value)}
      >
        {modes.availableModes.map((mode) => (
          <option key={mode.id} value={mode.id}>
            {mode.name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The agent's other settings, such as its model; folded away until asked for. */
export function OptionPickers({ session, conversation }: Props) {
  const options = (conversation.view.value.configOptions ?? session.configOptions ?? []).filter(
    (option) => option.category !== "mode" || !session.modes,
  );
  if (options.length === 0) return null;
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
