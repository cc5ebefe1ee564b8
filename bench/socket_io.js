// socket.io: node socket_io.js PORT
const { Server } = require('socket.io');
const io = new Server(+process.argv[2], { serveClient: false, transports: ['websocket'], perMessageDeflate: false, httpCompression: false, maxHttpBufferSize: 1 << 26 });
io.on('connection', socket => {
  socket.on('sub', room => { socket.join(room); socket.emit('ok'); });
  socket.on('pub', (room, message) => socket.to(room).emit('u', message));
});
