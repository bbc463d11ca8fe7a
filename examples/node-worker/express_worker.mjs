// The same worker with Express.
import express from "express";

import { Busy, described, Invalid, ship } from "./orders.mjs";

const app = express();
app.use(express.json({ limit: "1mb", strict: false }));

app.post("/", async (request, response) => {
    await ship(request.body);
    response.sendStatus(204);
});

// Express knows the handler of errors by its four parameters.
app.use((error, request, response, next) => {
    const isBody = error.type?.startsWith("entity."); // a body that is no JSON: 400
    const status = isBody ? error.status : error instanceof Invalid ? 422 : error instanceof Busy ? 429 : 500;
    if (error instanceof Busy) response.set("Retry-After", "1");
    response.status(status).json(described(error));
});

const server = app.listen(process.env.PORT ?? 8080, "127.0.0.1");
process.on("SIGTERM", () => server.close());
