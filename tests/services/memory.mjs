// The memory of a browser that looks at the overview: once a minute, after a collection.
//
//     node memory.mjs MODULES URL COOKIE MINUTES
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, url, cookie, minutes] = process.argv.slice(2);
const require = createRequire(join(modules, "node_modules", "none.js"));
const { default: puppeteer } = await import(pathToFileURL(require.resolve("puppeteer-core")));
const browser = await puppeteer.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
try {
    const [name, value] = cookie.split("=");
    await browser.setCookie({ name, value, domain: new URL(url).hostname, path: "/" });
    const page = await browser.newPage();
    await page.goto(`${url}/`);
    const client = await page.createCDPSession();
    for (let minute = 0; minute <= Number(minutes); minute += 1) {
        if (minute > 0) await new Promise((resolve) => setTimeout(resolve, 60_000));
        await client.send("HeapProfiler.collectGarbage");
        const { JSHeapUsedSize, Nodes, JSEventListeners } = await page.metrics();
        console.log(`  browser  minute ${minute}   ${(JSHeapUsedSize / 2 ** 20).toFixed(1).padStart(7)}   ${Nodes} nodes, ${JSEventListeners} listeners`);
    }
} finally {
    await browser.close();
}
