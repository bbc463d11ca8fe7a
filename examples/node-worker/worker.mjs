// A worker behind `backstop run --http`: each message is a POST, and the status of the answer says how it went.
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

import { Busy, described, Invalid, ship } from "./orders.mjs";

async function answer(request) {
    let order;
    try {
        order = await json(request);
    } catch (error) {
        return [400, {}, described(error)]; // it is no JSON: there is no other attempt
    }
    try {
        await ship(order);
        return [200, {}, {}]; // it is done: the message is deleted
    } catch (error) {
        if (error instanceof Invalid) return [422, {}, described(error)]; // nor is there of this one
        if (error instanceof Busy) return [429, { "Retry-After": "1" }, described(error)];
        return [500, {}, described(error)];
    }
}

const server = createServer(async (request, response) => {
    const [status, headers, body] = await answer(request);
    response.writeHead(status, headers).end(JSON.stringify(body));
});
server.listen(process.env.PORT ?? 8080, "127.0.0.1");
process.on("SIGTERM", () => server.close()); // what is under way ends first
