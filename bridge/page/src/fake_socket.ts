import type { Message } from "./connection";

/** A relay's end of one socket: it answers what it is told to, when it is told to. */
export class FakeSocket {
  readyState = 0;
  sent: Message[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Message);
  }

  close(code = 1000): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    queueMicrotask(() => this.onclose?.({ code }));
  }

  accept(): void {
    this.readyState = 1;
    this.onopen?.();
  }

  answer(method: string, result: unknown): void {
    const request = this.sent.findLast((message) => message.method === method);
    this.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id: request?.id, result }) });
  }

  refuse(method: string, message: string, reason = "not_allowed"): void {
    const request = this.sent.findLast((one) => one.method === method);
    const error = { code: -32010, message, data: { reason } };
    this.tell({ jsonrpc: "2.0", id: request?.id, error });
  }

  /** The params of all requests and notifications of one method, in order. */
  received(method: string): Message["params"][] {
    return this.sent.filter((one) => one.method === method).map((one) => one.params);
  }

  tell(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}
