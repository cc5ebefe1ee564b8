import { useState } from "preact/hooks";
import { contentOf, type Field, fieldsOf, initialValues, problem } from "../fields";
import { usePage } from "../page";
import type { Form as FormSubject } from "../subject";
import type { Json, RoundTrip } from "../wire";
import { words } from "../words";
import { FieldInput } from "./FieldInput";
import { Shown } from "./Shown";

// One question is opened at a time.
const FORM_ID = "question-form";

interface Props {
  form: FormSubject;
  /** Null: it may be looked at, not answered. */
  roundTrip: RoundTrip | null;
}

/** What the agent wants to know, as a form. */
export function Form({ form, roundTrip }: Props) {
  const { decisions } = usePage();
  const fields = fieldsOf(form.schema);
  const [values, setValues] = useState(() => initialValues(fields));
  const [tried, setTried] = useState(false);
  const wrong = new Map(
    fields.map((field) => [field.name, problem(field, values[field.name] ?? null)]),
  );

  const send = (event: SubmitEvent) => {
    event.preventDefault();
    setTried(true);
    if (!roundTrip || [...wrong.values()].some(Boolean)) return;
    const content = contentOf(fields, values);
    decisions.decide(roundTrip, { action: "accept", content });
  };
  const set = (field: Field, value: Json) => setValues({ ...values, [field.name]: value });

  return (
    <form class="form" id={FORM_ID} onSubmit={send} noValidate>
      {form.url && (
        <p>
          {words.question.linkTo} <Shown text={form.url} />
        </p>
      )}
      {fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          value={values[field.name] ?? null}
          wrong={tried ? (wrong.get(field.name) ?? null) : null}
          disabled={!roundTrip}
          onChange={(value) => set(field, value)}
        />
      ))}
    </form>
  );
}

interface ButtonsProps {
  form: FormSubject;
  roundTrip: RoundTrip;
  isLocked: boolean;
}

/** The buttons of a form, which stand apart from it so that they stay in reach. */
export function FormButtons({ form, roundTrip, isLocked }: ButtonsProps) {
  const { decisions } = usePage();
  const fields = fieldsOf(form.schema);
  const cannotDraw = fields.some((field) => field.kind === "unknown" && field.required);
  return (
    <div class="options">
      <button type="submit" class="btn" form={FORM_ID} disabled={cannotDraw || isLocked}>
        {words.question.accept}
      </button>
      <button
        type="button"
        class="btn"
        onClick={() => decisions.decide(roundTrip, { action: "decline" })}
      >
        {words.question.decline}
      </button>
    </div>
  );
}
