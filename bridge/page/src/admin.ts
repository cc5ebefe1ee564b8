/** What an admin reads and changes over plain HTTP: the audit and the rules. */

import { call } from "./api";
import type { Answer, Origin } from "./wire";

export interface AuditRecord {
  id: string;
  at: string;
  event: string;
  by?: Origin;
  title?: string;
  risk?: string;
  meaning?: string;
  result?: string;
  reason?: string;
  answer?: Answer;
  sessionId?: string;
  agent?: string;
  askedAt?: string;
  decidedAt?: string;
  words?: string;
  [more: string]: unknown;
}

export interface AuditPage {
  records: AuditRecord[];
  next?: string | null;
}

export interface Figures {
  held: number;
  approved: number;
  denied: number;
  byRule: number;
  expired: number;
  medianSecondsToDecide: number | null;
}

/** Gives `?a=b` of what is not empty. */
export function query(given: Record<string, string | number | null | undefined>): string {
  const filled = Object.entries(given).filter(([, value]) => value !== null && value !== "");
  const pairs = filled.map(([name, value]) => [name, String(value ?? "")]);
  const text = new URLSearchParams(pairs.filter(([, value]) => value)).toString();
  return text && `?${text}`;
}

export async function audit(wanted: Record<string, string>): Promise<AuditPage> {
  return call("GET", `/api/audit${query(wanted)}`);
}

export async function figures(wanted: Record<string, string>): Promise<Figures> {
  return call("GET", `/api/audit/figures${query(wanted)}`);
}

export const ACTIONS = [
  "deny",
  "two_people",
  "passkey",
  "ask",
  "expire",
  "escalate",
  "allow",
] as const;
export type Action = (typeof ACTIONS)[number];

export interface Match {
  tools?: string[];
  paths?: string[];
  commands?: string[];
  agents?: string[];
  hosts?: string[];
  sessions?: string[];
  risks?: string[];
}

export interface RuleWish {
  match: Match;
  action: Action;
  seconds?: number;
  note?: string;
  position?: number;
}

export interface Rule extends RuleWish {
  id: string;
  words: string;
  by: Origin;
  at: string;
}

export interface Would {
  id: string;
  sessionId: string;
  agent: string;
  title: string;
  risk: string;
  askedAt: string;
  rule: string;
  action: Action;
  words: string;
  was: string;
}

export interface DryRun {
  questions: Would[];
  counts: Partial<Record<Action, number>>;
  of: number;
  hours: number;
}

export async function rules(): Promise<Rule[]> {
  return (await call<{ rules: Rule[] }>("GET", "/api/rules")).rules;
}

export async function addRule(rule: RuleWish): Promise<Rule> {
  return call("POST", "/api/rules", rule);
}

export async function removeRule(id: string): Promise<void> {
  await call("DELETE", `/api/rules/${encodeURIComponent(id)}`);
}

/** Tells what rules would have done; without any, those that hold. */
export async function tryRules(rules?: RuleWish[]): Promise<DryRun> {
  return call("POST", "/api/rules/dry-run", rules ? { rules } : {});
}
