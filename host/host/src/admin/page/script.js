// The page's only script. It replaces the parts that change, and sends what somebody does. It never makes HTML from text.
"use strict";

const PACE = 3000;
const state = document.getElementById("state");

// The parts that change, from the same address.
async function refresh() {
    const response = await fetch(location.href, { cache: "no-store", credentials: "same-origin", redirect: "error" });
    if (response.status === 401) {
        location.reload();
        return;
    }
    if (!response.ok) {
        throw new Error(`status ${response.status}`);
    }
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (ids(document) !== ids(fresh) && !isWriting()) {
        // A queue or a host has come or gone.
        location.reload();
        return;
    }
    for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        const isUsed = part.contains(document.activeElement) && document.activeElement !== document.body;
        if (other && !isUsed && !hasSelection(part) && part.innerHTML !== other.innerHTML) {
            part.replaceWith(document.importNode(other, true));
        }
    }
}

function ids(of) {
    return [...of.querySelectorAll("[data-live]")].map((part) => part.id).join(" ");
}

function isWriting() {
    return document.activeElement instanceof HTMLInputElement;
}

function hasSelection(part) {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && selection.containsNode(part, true);
}

// One request at a time, and none while nobody looks.
async function follow() {
    if (document.visibilityState === "visible" && document.querySelector("[data-live]")) {
        try {
            await refresh();
            say("");
        } catch {
            say("This host does not answer. What you see is as old as it says.");
        }
    }
    setTimeout(follow, PACE);
}

function say(text) {
    if (state && state.textContent !== text) {
        state.textContent = text;
    }
}

async function send(path, body) {
    const response = await fetch(path, {
        method: "POST",
        credentials: "same-origin",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
    });
    const answer = await response.json();
    if (!response.ok) {
        throw new Error(answer.error || `status ${response.status}`);
    }
    return answer;
}

function fields(form) {
    return Object.fromEntries(new FormData(form).entries());
}

// What was done, host by host.
function show(output, answer) {
    output.replaceChildren();
    const summary = document.createElement("p");
    summary.textContent = answer.summary;
    const hosts = document.createElement("ul");
    for (const { host, text } of answer.hosts) {
        const item = document.createElement("li");
        item.textContent = `${host}: ${text}`;
        hosts.append(item);
    }
    output.className = answer.is_part ? "bad" : "good";
    output.append(summary, hosts);
}

async function act(form) {
    const output = form.querySelector("output") || form.parentElement.querySelector("output");
    const buttons = [...form.querySelectorAll("button")].filter((button) => !button.disabled);
    if (form.dataset.sure && !confirm(form.dataset.sure)) {
        return;
    }
    // Twice is not twice as much.
    buttons.forEach((button) => { button.disabled = true; });
    output.className = "";
    output.textContent = "Under way …";
    try {
        const answer = await send("/page/act", { ...JSON.parse(form.dataset.act), ...fields(form) });
        show(output, answer);
        if (form.dataset.done && !answer.is_part) {
            location.assign(form.dataset.done);
        }
    } catch (error) {
        output.className = "bad";
        output.textContent = error.message;
    }
    buttons.forEach((button) => { button.disabled = false; });
}

async function session(form) {
    const output = form.querySelector("output");
    try {
        await send(form.dataset.send, fields(form));
        location.assign(location.pathname === "/page/sign-in" ? "/" : location.href);
    } catch (error) {
        output.textContent = error.message;
    }
}

// Sends the file first, if there is one, then the question.
async function ask(form) {
    const output = form.querySelector("output");
    output.className = "";
    output.textContent = "Under way …";
    try {
        const { upload, ...asked } = fields(form);
        if (upload && upload.size > 32 * 1024 * 1024) {
            throw new Error("The file has more than 32 MiB, which is the most.");
        }
        if (upload && upload.size > 0) {
            const response = await fetch(`/page/upload?name=${encodeURIComponent(upload.name)}`, {
                method: "POST",
                credentials: "same-origin",
                headers: { "Content-Type": "application/wasm" },
                body: upload,
            });
            const answer = await response.json();
            if (!response.ok) {
                throw new Error(answer.error || `status ${response.status}`);
            }
            asked.file = answer.file;
        }
        const { question } = await send("/page/what-if", asked);
        location.assign(`${form.dataset.whatIf}?question=${question}`);
    } catch (error) {
        output.className = "bad";
        output.textContent = error.message;
    }
}

// Without the API that plain HTTP does not have.
function copy(button) {
    const text = document.getElementById(button.dataset.copy);
    const range = document.createRange();
    range.selectNodeContents(text);
    const selection = document.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
}

document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.act) {
        event.preventDefault();
        act(form);
    } else if (form.dataset.whatIf) {
        event.preventDefault();
        ask(form);
    } else if (form.dataset.send) {
        event.preventDefault();
        session(form);
    }
});

document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (button && button.dataset.copy) {
        copy(button);
    } else if (button && button.dataset.send) {
        await send(button.dataset.send, {}).catch(() => {});
        location.assign("/");
    }
});

setTimeout(follow, PACE);
