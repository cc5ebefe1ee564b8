// uWebSockets: node uwebsockets.js PORT
const uws = require('uwebsockets');
const app = uws.App();
app.ws('/*', {
  maxPayloadLength: 1 << 26, maxBackpressure: 1 << 26, compression: 0, idleTimeout: 0,
  upgrade: (res, req, ctx) => res.upgrade({ publishes: req.getUrl().startsWith('/pub'), channel: 'c' + req.getUrl().slice(5) },
    req.getHeader('sec-websocket-key'), req.getHeader('sec-websocket-protocol'), req.getHeader('sec-websocket-extensions'), ctx),
  open: ws => { const user = ws.getUserData(); if (!user.publishes) ws.subscribe(user.channel); },
  message: (ws, message) => { const user = ws.getUserData(); if (user.publishes) app.publish(user.channel, message, false); },
}).listen('127.0.0.1', +process.argv[2], listening => { if (!listening) process.exit(1); });
