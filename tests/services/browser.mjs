// Looks at the page of a host as a person does, in Chromium: signs in, opens every view in both colour schemes and at two widths, with and without a mouse, wakes what waits, and waits until the view changes by itself. Prints what it found as JSON.
//
//     node browser.mjs MODULES URL QUEUE TOKEN POLICY [FOLDER for pictures]
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, url, queue, token, policy, pictures] = process.argv.slice(2);
const require = createRequire(join(modules, "node_modules", "none.js"));
const { default: puppeteer } = await import(pathToFileURL(require.resolve("puppeteer-core")));
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const found = { violations: [], wide: [], errors: [], requests: [], steps: [] };
const browser = await puppeteer.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"],
});
try {
    const page = await browser.newPage();
    page.setDefaultTimeout(60_000);
    page.on("console", (message) => {
        if (message.type() === "error" && !message.text().includes("401")) found.errors.push(message.text());
    });
    page.on("pageerror", (error) => found.errors.push(String(error)));
    page.on("dialog", (dialog) => dialog.accept());
    page.on("request", (request) => {
        if (!request.url().startsWith(`${url}/`) && !request.url().startsWith("data:")) found.requests.push(request.url());
    });

    // What axe finds. It runs in a world of its own, which the page's policy does not concern.
    async function check(name) {
        const client = await page.createCDPSession();
        const { frameTree } = await client.send("Page.getFrameTree");
        const { executionContextId } = await client.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
        await client.send("Runtime.evaluate", { expression: axe, contextId: executionContextId });
        const run = "axe.run().then((it) => JSON.stringify(it.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))])))";
        const { result } = await client.send("Runtime.evaluate", { expression: run, contextId: executionContextId, awaitPromise: true, returnByValue: true });
        for (const violation of JSON.parse(result.value)) found.violations.push([name, ...violation]);
        await client.detach();
    }

    // The keyboard alone.
    await page.goto(`${url}/`);
    await check("sign in");
    await page.focus("input[name=name]");
    await page.keyboard.type("Ana");
    await page.keyboard.press("Tab");
    await page.keyboard.type(token);
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    found.steps.push(await page.title());

    const views = ["/", `/waiting?queue=${queue}`, `/waiting/wake?queue=${queue}&all=yes`, `/waiting/reconsider?queue=${queue}`, "/dead-letters", `/dead-letters?queue=${queue}`, "/redrives", "/message?id=none", "/policies", "/policies/what-if", "/audit", "/page/sign-in"];
    for (const scheme of ["light", "dark"]) {
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        for (const [width, height] of [[1280, 900], [390, 800]]) {
            await page.setViewport({ width, height });
            for (const view of views) {
                await page.goto(url + view);
                await check(`${scheme} ${width} ${view}`);
                const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
                if (wide > 0) found.wide.push([width, view, wide]);
            }
        }
    }
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
    await page.setViewport({ width: 1280, height: 900 });

    // The skip link is the first stop, and leads to the content.
    await page.goto(`${url}/waiting?queue=${queue}`);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    found.steps.push(await page.evaluate(() => document.activeElement.id));
    await page.evaluate(() => document.activeElement.blur());

    // The view changes by itself, without a navigation.
    const before = await page.$eval("#missing time", (it) => it.dateTime);
    await page.waitForFunction((then) => document.querySelector("#missing time").dateTime !== then, {}, before);
    found.steps.push("refreshed");

    // A field that somebody writes into stays.
    await page.type("input[name=why]", "the till is closed");
    await page.waitForFunction((then) => document.querySelector("#missing time").dateTime !== then, {}, await page.$eval("#missing time", (it) => it.dateTime));
    found.steps.push(await page.$eval("input[name=why]", (it) => it.value));

    await page.click("form[data-act*=pause] button");
    await page.waitForFunction(() => document.querySelector(".controls output").textContent.includes("paused"));
    found.steps.push(await page.$eval(".controls output p", (it) => it.textContent));
    await page.click("form[data-act*=resume] button");
    await page.waitForFunction(() => document.querySelector(".controls output").textContent.includes("resumed"));

    if (pictures) {
        await page.goto(`${url}/`);
        await page.screenshot({ path: join(pictures, "page-overview.webp"), type: "webp", quality: 70, fullPage: true });
    }

    // What if the policy in this file decided?
    await page.goto(`${url}/policies/what-if?queue=${queue}`);
    await (await page.$("input[name=upload]")).uploadFile(policy);
    await Promise.all([page.waitForNavigation(), page.click("form[data-what-if] button")]);
    await page.waitForFunction(() => document.querySelector(".numbers") && !document.querySelector("#under-way"));
    await page.waitForFunction(() => [...document.images].every((it) => it.complete && it.naturalWidth > 0));
    for (const [width, height] of [[390, 800], [1280, 900]]) {
        await page.setViewport({ width, height });
        await check(`what if ${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (wide > 0) found.wide.push([width, "what if", wide]);
    }
    found.steps.push(await page.$$eval(".numbers", (all) => all.map((it) => it.firstElementChild.textContent).join(", ")));

    // Preview, then wake.
    await page.goto(`${url}/waiting?queue=${queue}`);
    await page.click("input[name=all]");
    await Promise.all([page.waitForNavigation(), page.click(".wake button")]);
    if (pictures) await page.screenshot({ path: join(pictures, "page-wake.webp"), type: "webp", quality: 70, fullPage: true });
    await page.click("form[data-act*=wake] button");
    await page.waitForFunction(() => document.querySelector("form output p"));
    found.steps.push(await page.$eval("form output p", (it) => it.textContent));

    // Dead letters: a survey, a choice, a preview, and a run.
    await page.goto(`${url}/dead-letters?queue=${queue}`);
    await page.click("form[data-act*=survey] button");
    await page.waitForSelector("input[name=group]");
    found.steps.push(await page.$eval("[data-live] strong", (it) => it.textContent));
    for (const [width, height] of [[390, 800], [1280, 900]]) {
        await page.setViewport({ width, height });
        await check(`a survey ${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (wide > 0) found.wide.push([width, "a survey", wide]);
    }
    await page.click("input[name=group]");
    await page.select("select[name=only]", "all");
    if (pictures) await page.screenshot({ path: join(pictures, "page-letters.webp"), type: "webp", quality: 70, fullPage: true });
    for (const name of ["ramp", "stop-at", "watch-for"]) await page.$eval(`input[name=${name}]`, (it) => { it.value = ""; });
    await Promise.all([page.waitForNavigation(), page.click("fieldset button")]);
    await check("a preview of a run");
    await Promise.all([page.waitForNavigation(), page.click("form[data-act*=redrive] button")]);
    await page.waitForFunction(() => document.querySelector(".state").textContent === "done");
    await check("a run");
    found.steps.push((await page.$eval(".numbers", (it) => it.textContent)).slice(0, 14));

    // Plain HTTP has no clipboard API.
    await page.goto(`${url}/message?id=it%27s`);
    await page.click("button[data-copy]");
    found.steps.push(await page.$eval("button[data-copy]", (it) => it.textContent));

    await page.goto(`${url}/`);
    await Promise.all([page.waitForNavigation(), page.click("button[data-send='/page/sign-out']")]);
    found.steps.push(await page.title());
} finally {
    await browser.close();
}
console.log(JSON.stringify(found));
