import { describe, expect, test } from "vitest";
import { contentOf, fieldsOf, initialValues, problem } from "./fields";
import recorded from "./recorded/claude-ask.json";
import type { Payload } from "./wire";

const schema = {
  type: "object",
  required: ["which"],
  properties: {
    which: { type: "string", oneOf: [{ const: "csv", title: "CSV" }] },
    depth: { type: "integer", minimum: 1, maximum: 5, default: 2 },
    fast: { type: "boolean" },
    tables: { type: "array", items: { enum: ["users", "orders"] } },
    mail: { type: "string", format: "email", minLength: 3 },
    nested: { type: "object" },
  },
};

describe("an agent's form", () => {
  const fields = fieldsOf(schema);

  test("has a field of its own kind for each property, in order", () => {
    expect(fields.map((field) => field.kind)).toEqual([
      "choice",
      "number",
      "boolean",
      "choices",
      "text",
      "unknown",
    ]);
  });

  test("starts with what the schema proposes and with nothing chosen", () => {
    expect(initialValues(fields)).toEqual({
      which: "",
      depth: 2,
      fast: false,
      tables: [],
      mail: "",
      nested: "",
    });
  });

  test("sends numbers as numbers and leaves out what is empty", () => {
    const values = { which: "csv", depth: "3", fast: true, tables: [], mail: "" };
    expect(contentOf(fields, values)).toEqual({ which: "csv", depth: 3, fast: true });
  });

  test.each([
    ["which", "", /needed/],
    ["depth", "9", /most 5/],
    ["depth", "1.5", /whole/],
    ["depth", "x", /number/],
    ["mail", "a", /least 3/],
  ])("says what is wrong with %s = %j", (name, value, expected) => {
    const field = fields.find((one) => one.name === name);
    expect(field && problem(field, value)).toMatch(expected);
  });
});

test("claude's own question is a choice and a text", () => {
  const asked = recorded.find((entry) => entry.method === "elicitation/create");
  const [choice, other] = fieldsOf((asked?.params.requestedSchema ?? {}) as Payload);
  expect(choice?.choices.map((one) => one.name)).toEqual(["rig label 1", "rig label 2"]);
  expect(other).toMatchObject({ kind: "text", label: "Other" });
});
