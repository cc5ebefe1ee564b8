/** The fields of an elicitation's form, read from its JSON schema. */

import type { Json, Payload } from "./wire";
import { words } from "./words";

export interface Choice {
  value: string;
  name: string;
  description: string;
}

type InputType = "text" | "email" | "url" | "date";

export interface Field {
  name: string;
  label: string;
  description: string;
  required: boolean;
  kind: "text" | "number" | "boolean" | "choice" | "choices" | "unknown";
  choices: Choice[];
  input: InputType;
  step?: string;
  min?: number;
  max?: number;
  minLength?: number;
  maxLength?: number;
  initial: Json;
}

const INPUTS: Record<string, InputType> = { email: "email", uri: "url", date: "date" };

/** Gives the form's fields in the order of the schema. */
export function fieldsOf(schema: Payload): Field[] {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return Object.entries((schema.properties ?? {}) as Record<string, Payload>).map(
    ([name, property]) => fieldOf(name, property ?? {}, required.has(name)),
  );
}

/** The values that a form starts with: what the schema proposes, else nothing chosen. */
export function initialValues(fields: Field[]): Record<string, Json> {
  return Object.fromEntries(fields.map((field) => [field.name, field.initial]));
}

/** What is wrong with a value, in words; null when it can be sent. */
export function problem(field: Field, value: Json): string | null {
  if (isEmpty(value)) return field.required ? words.form.problems.needed : null;
  if (field.kind === "number") return numberProblem(field, Number(value));
  if (field.kind !== "text") return null;
  const length = String(value).length;
  if (field.minLength !== undefined && length < field.minLength) {
    return words.form.problems.longer(field.minLength);
  }
  if (field.maxLength !== undefined && length > field.maxLength) {
    return words.form.problems.shorter(field.maxLength);
  }
  return null;
}

/** The content of an answer: what was filled in, numbers as numbers. */
export function contentOf(fields: Field[], values: Record<string, Json>): Record<string, Json> {
  const content: Record<string, Json> = {};
  for (const field of fields) {
    const value = values[field.name] ?? null;
    if (isEmpty(value)) continue;
    content[field.name] = field.kind === "number" ? Number(value) : value;
  }
  return content;
}

function isEmpty(value: Json): boolean {
  return value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

function numberProblem(field: Field, value: number): string | null {
  if (!Number.isFinite(value)) return words.form.problems.number;
  if (field.step === "1" && !Number.isInteger(value)) return words.form.problems.whole;
  if (field.min !== undefined && value < field.min) return words.form.problems.least(field.min);
  if (field.max !== undefined && value > field.max) return words.form.problems.most(field.max);
  return null;
}

function fieldOf(name: string, property: Payload, required: boolean): Field {
  const type = String(property.type ?? (property.enum || property.oneOf ? "string" : ""));
  const choices = choicesOf(type === "array" ? ((property.items ?? {}) as Payload) : property);
  const kind = kindOf(type, choices);
  return {
    name,
    label: text(property.title) || name,
    description: text(property.description),
    required,
    kind,
    choices,
    input: INPUTS[text(property.format)] ?? "text",
    step: type === "integer" ? "1" : "any",
    min: number(property.minimum),
    max: number(property.maximum),
    minLength: number(property.minLength),
    maxLength: number(property.maxLength),
    initial: (property.default as Json) ?? emptyOf(kind),
  };
}

function kindOf(type: string, choices: Choice[]): Field["kind"] {
  if (type === "array") return choices.length ? "choices" : "unknown";
  if (choices.length) return "choice";
  if (type === "string") return "text";
  if (type === "number" || type === "integer") return "number";
  return type === "boolean" ? "boolean" : "unknown";
}

function choicesOf(property: Payload): Choice[] {
  const named = property.oneOf ?? property.anyOf;
  if (Array.isArray(named)) {
    return (named as Payload[]).map((choice) => ({
      value: text(choice.const),
      name: text(choice.title) || text(choice.const),
      description: text(choice.description),
    }));
  }
  if (!Array.isArray(property.enum)) return [];
  const names = Array.isArray(property.enumNames) ? property.enumNames : [];
  return property.enum.map((value, index) => ({
    value: text(value),
    name: text(names[index]) || text(value),
    description: "",
  }));
}

function emptyOf(kind: Field["kind"]): Json {
  if (kind === "boolean") return false;
  return kind === "choices" ? [] : "";
}

function text(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}

function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
