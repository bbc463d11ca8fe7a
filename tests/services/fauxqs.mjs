// Starts fauxqs on the loopback address only: by itself it would listen on all. `/requests` tells benchmarks how many receives, deletes and changes of visibility it got. Usage: node fauxqs.mjs FOLDER_OF_FAUXQS PORT
const [folder, port] = process.argv.slice(2);
const { buildApp } = await import(`${folder}/dist/app.js`);
const app = buildApp({ logger: false });
let requests = 0;
app.server.on("request", ({ headers }) => {
  if (/ReceiveMessage|DeleteMessage|ChangeMessageVisibility/.test(headers["x-amz-target"])) requests++;
});
app.get("/requests", () => String(requests));
await app.listen({ port: Number(port), host: "127.0.0.1" });
