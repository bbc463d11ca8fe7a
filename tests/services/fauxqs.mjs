// Starts fauxqs on the loopback address only: by itself it would listen on all. Usage: node fauxqs.mjs FOLDER_OF_FAUXQS PORT
const [folder, port] = process.argv.slice(2);
const { buildApp } = await import(`${folder}/dist/app.js`);
await buildApp({ logger: false }).listen({ port: Number(port), host: "127.0.0.1" });
