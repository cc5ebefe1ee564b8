// The official TypeScript SDK as a client, driven by a test over standard input and output.
//
//   node sdk_client.mjs ws URL TOKEN        over a websocket
//   node sdk_client.mjs stdio PROGRAM ...   a child process
//
// In:  {"id", "method", "params"}  call;  {"notify", "params"}  tell;  {"answer", "result"}  answer
// Out: {"id", "result" | "error"};  {"update"};  {"question", "params"};  {"withdrawn"}
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const open = new Map();
let questions = 0;

function ask({ params, signal }) {
  const number = ++questions;
  say({ question: number, params });
  return new Promise((resolve, reject) => {
    open.set(number, resolve);
    signal.addEventListener("abort", () => {
      say({ withdrawn: number });
      reject(signal.reason);
    });
  });
}

function stream([kind, ...rest]) {
  if (kind === "ws") {
    const [url, token] = rest;
    const headers = { Authorization: `Bearer ${token}` };
    return createWebSocketStream(url, { WebSocket, headers });
  }
  const [program, ...words] = rest;
  const child = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
  return ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
}

const app = client({ name: "test" })
  .onRequest(methods.client.session.requestPermission, ask)
  .onNotification(methods.client.session.update, ({ params }) => say({ update: params }));

await app.connectWith(stream(process.argv.slice(2)), async (agent) => {
  for await (const line of createInterface({ input: process.stdin })) {
    const told = JSON.parse(line);
    if (told.answer) {
      open.get(told.answer)(told.result);
    } else if (told.notify) {
      await agent.notify(told.notify, told.params);
    } else {
      agent.request(told.method, told.params).then(
        (result) => say({ id: told.id, result }),
        (error) => say({ id: told.id, error: { code: error.code, message: error.message } }),
      );
    }
  }
});
process.exit(0);
