// The same work as a command: the message is its input, and the exit status says how it went.
import { json } from "node:stream/consumers";

import { Busy, described, Invalid, ship } from "./orders.mjs";

function failed(error, status) {
    console.log(JSON.stringify(described(error)));
    process.exit(status);
}

const order = await json(process.stdin).catch((error) => failed(error, 65)); // it is no JSON: there is no other attempt
await ship(order).catch((error) => {
    if (error instanceof Invalid) failed(error, 65);
    if (error instanceof Busy) failed(error, 75); // later
    failed(error, 1);
});
