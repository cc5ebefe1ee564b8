import type { ComponentChildren } from "preact";
import type { Choice, Field } from "../fields";
import type { Json } from "../wire";
import { words } from "../words";
import { Shown } from "./Shown";

interface Props {
  field: Field;
  value: Json;
  wrong: string | null;
  disabled: boolean;
  onChange: (value: Json) => void;
}

/** One field of an agent's form. */
export function FieldInput(props: Props) {
  const { field } = props;
  if (field.kind === "choice" || field.kind === "choices") return <Choices {...props} />;
  if (field.kind === "boolean") return <Toggle {...props} />;
  if (field.kind === "unknown") return <p class="note">{words.form.unknown(field.label)}</p>;
  const id = `field-${field.name}`;
  return (
    <div class="field">
      <label for={id}>
        <Shown text={field.label} dir="auto" />
      </label>
      <Hint field={field} />
      <input
        id={id}
        dir="auto"
        // Preact's types know each input type apart; ours is one of several.
        type={(field.kind === "number" ? "number" : field.input) as "text"}
        step={field.kind === "number" ? field.step : undefined}
        value={String(props.value ?? "")}
        disabled={props.disabled}
        aria-invalid={props.wrong !== null}
        aria-describedby={props.wrong ? `${id}-wrong` : undefined}
        onInput={(event) => props.onChange(event.currentTarget.value)}
      />
      <Wrong id={`${id}-wrong`} text={props.wrong} />
    </div>
  );
}

function Choices({ field, value, wrong, disabled, onChange }: Props) {
  const many = field.kind === "choices";
  const chosen = new Set(Array.isArray(value) ? value : [value]);
  const pick = (choice: Choice) => {
    if (!many) return onChange(chosen.has(choice.value) && !field.required ? "" : choice.value);
    const next = new Set(chosen);
    if (!next.delete(choice.value)) next.add(choice.value);
    onChange(field.choices.map((one) => one.value).filter((one) => next.has(one)));
  };
  return (
    <fieldset class="field" disabled={disabled}>
      <legend>
        <Shown text={field.label} dir="auto" />
      </legend>
      <Hint field={field} />
      {field.choices.map((choice) => (
        <Pick
          key={choice.value}
          type={many ? "checkbox" : "radio"}
          name={`field-${field.name}`}
          checked={chosen.has(choice.value)}
          onPick={() => pick(choice)}
        >
          <Named name={choice.name} description={choice.description} />
        </Pick>
      ))}
      <Wrong id={`field-${field.name}-wrong`} text={wrong} />
    </fieldset>
  );
}

function Toggle({ field, value, disabled, onChange }: Props) {
  return (
    <fieldset class="field" disabled={disabled}>
      <Pick type="checkbox" checked={value === true} onPick={() => onChange(value !== true)}>
        <Named name={field.label} description={field.description} />
      </Pick>
    </fieldset>
  );
}

function Named({ name, description }: { name: string; description: string }) {
  return (
    <span>
      <Shown text={name} dir="auto" />
      {description && (
        <small>
          <Shown text={description} dir="auto" />
        </small>
      )}
    </span>
  );
}

interface PickProps {
  type: "checkbox" | "radio";
  name?: string;
  checked: boolean;
  onPick: () => void;
  children: ComponentChildren;
}

function Pick({ type, name, checked, onPick, children }: PickProps) {
  return (
    <label class="pick">
      <input type={type} name={name} checked={checked} onClick={onPick} />
      {children}
    </label>
  );
}

function Hint({ field }: { field: Field }) {
  const needed = field.required ? words.form.needed : "";
  const text = [field.description, needed].filter(Boolean).join(" · ");
  return text ? (
    <p class="note">
      <Shown text={text} dir="auto" />
    </p>
  ) : null;
}

function Wrong({ id, text }: { id: string; text: string | null }) {
  return text ? (
    <p id={id} class="problem" role="alert">
      {text}
    </p>
  ) : null;
}
