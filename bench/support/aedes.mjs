/** npm's aedes on Node, with nothing added. Arguments: directory it is installed in, port. */
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import process from "node:process";

const [directory, port] = process.argv.slice(2);
const resolved = createRequire(pathToFileURL(directory + "/")).resolve("aedes");
const { Aedes } = await import(pathToFileURL(resolved).href);
const broker = await Aedes.createBroker();
createServer((socket) => {
  socket.setNoDelay(true);
  broker.handle(socket);
}).listen({ port: Number(port), host: "0.0.0.0", backlog: 4096 });
