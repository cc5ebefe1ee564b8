// What a foreign page tries with the sign-in of who looks at it; each says whether it got anywhere.
async (relay) => {
  const socket = relay.replace("http", "ws") + "/acp";
  const events = relay + "/api/sessions/s/events";
  const reads = async (path, options) => {
    try {
      const answer = await fetch(relay + path, { credentials: "include", ...options });
      return answer.type !== "opaque" && (await answer.text()).length > 0;
    } catch { return false; }
  };
  const opens = (make) => new Promise((done) => {
    try {
      const one = make();
      one.onopen = () => done(true);
      one.onerror = one.onclose = () => { done(false); one.close(); };
    } catch { done(false); }
  });
  const frames = () => new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.onload = () => {
      try {
        done(frame.contentDocument.title === "Chimera Bridge");
      } catch {
        done(false);
      }
    };
    frame.src = relay + "/";
    document.body.append(frame);
  });
  const scripts = (path) => new Promise((done) => {
    const script = document.createElement("script");
    script.onload = () => done(true);
    script.onerror = () => done(false);
    script.src = relay + path;
    document.head.append(script);
  });
  const json = { "content-type": "application/json" };
  const post = { method: "POST", body: "{}" };
  const plain = { "content-type": "text/plain" };
  return {
    "reads who is signed in": await reads("/api/me"),
    "reads sessions": await reads("/api/sessions"),
    "takes a ticket": await reads("/api/ticket", { method: "POST" }),
    "takes a ticket, simply": await reads("/api/ticket", { ...post, headers: plain }),
    "signs out": await reads("/api/sign-out", { ...post, headers: json }),
    "opens a websocket": await opens(() => new WebSocket(socket, ["acp.v1"])),
    "opens events": await opens(() => new EventSource(events, { withCredentials: true })),
    "frames the page": await frames(),
    "loads an answer as a script": await scripts("/api/sessions"),
  };
}
