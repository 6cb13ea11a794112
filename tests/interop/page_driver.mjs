// Drives a headless Chromium for tests/interop/browser.ts: a command in JSON a line on standard input,
// an answer in JSON a line on standard output.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const require = createRequire(process.env.PLAYWRIGHT);
const { chromium } = require("playwright-core");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});

let context;
let page;
let complaints = [];
let requests = [];

const commands = {
  /** A fresh profile, and the page at `url` in it; the status of the answer. */
  async open({ url, user, password, width, height, scheme }) {
    await context?.close();
    complaints = [];
    requests = [];
    context = await browser.newContext({
      viewport: { width, height },
      colorScheme: scheme,
      ...user === undefined ? {} : { httpCredentials: { username: user, password } },
    });
    page = await context.newPage();
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => requests.push(request.url()));
    const response = await page.goto(url);
    return response.status();
  },
  /** What the page complained of since it was opened, and what it asked for. */
  heard: () => ({ complaints, requests }),
  text: ({ selector }) => page.locator(selector).first().innerText(),
  texts: ({ selector }) => page.locator(selector).allInnerTexts(),
  async until({ selector, pattern }) {
    const matching = page.locator(selector).filter({ hasText: new RegExp(pattern) }).first();
    await matching.waitFor({ timeout: 60_000 });
    return await matching.innerText();
  },
  click: ({ selector }) => page.locator(selector).first().click(),
  fill: ({ selector, text }) => page.locator(selector).fill(text),
  press: ({ key }) => page.keyboard.press(key),
  evaluate: ({ expression }) => page.evaluate(expression),
  async screenshot({ path }) {
    await page.screenshot({ path, fullPage: true });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...options } = JSON.parse(line);
  let answer;
  try {
    answer = { value: await commands[command](options) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
