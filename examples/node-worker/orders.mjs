// The work: it knows nothing of queues.

/** No attempt can succeed. */
export class Invalid extends Error {
    name = "Invalid";
}

/** Too many requests: another attempt may succeed in a second. */
export class Busy extends Error {
    name = "Busy";
}

export async function ship(order) {
    if (order.article.startsWith("unknown")) {
        throw new Invalid("no such article");
    }
    if (order.article === "piano") {
        throw new Busy("the carrier takes ten pianos a minute");
    }
}

/** An error as Backstop reads it. Its code, such as ECONNRESET, says more than its class; fetch has it in the cause. */
export function described(error) {
    const names = [error?.code, error?.cause?.code, error?.name];
    const errorType = names.find((name) => typeof name === "string") ?? "Error";
    return { errorType, errorMessage: String(error?.message ?? error) };
}
