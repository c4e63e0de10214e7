// @module-tag rest
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { KeyCreated } from "../../../protocol/keys.ts";
import { SESSION_MS, SessionList } from "../../../protocol/sessions.ts";
import { callsOf, faultsOf, HAS_CHROMIUM, logInAt, type TestBrowser } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { Control } from "../../support/control.ts";
import type { DevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { signedExchange } from "../../support/http.ts";
import type { S3 } from "../../support/s3.ts";

let server: DevServer;
let control: Control;
let s3: S3;
let browser: TestBrowser;
let page: Page;

setStage({
  async begin(stage) {
    ({ server, control, s3, browser } = stage);
    await s3.createBucket("master.site");
    await control.call("PUT", "/repos/site/branches/master/public", {
      body: { public: true },
      answers: z.unknown(),
    });
  },
  opened(opened) {
    page = opened;
  },
});

/** Another tab of the same browser, at a page of the console. */
async function openTab(path: string): Promise<Page> {
  const tab = await browser.context.newPage();
  await tab.goto(`${server.endpoint}/console${path}`);
  return tab;
}

/** Waits until a tab shows a page, as it does to who is logged in. */
async function shown(tab: Page, name = "Now"): Promise<void> {
  await tab.getByRole("heading", { level: 1, name }).waitFor();
}

async function asksForKey(tab: Page): Promise<void> {
  await tab.getByRole("button", { name: "Log in" }).waitFor();
}

async function sessions(): Promise<string[]> {
  const list = await control.call("GET", "/console/sessions", { answers: SessionList });
  return list.sessions.map(({ id }) => id);
}

/** What the database of the console holds, as a script of its origin sees it. */
function keptIn(tab: Page) {
  return tab.evaluate(async () => {
    const done = <T>(asked: IDBRequest<T>) =>
      new Promise<T>((resolve, reject) => {
        asked.addEventListener("success", () => resolve(asked.result));
        asked.addEventListener("error", () => reject(asked.error));
      });
    const names = (await indexedDB.databases()).map(({ name }) => name);
    const database = await done(indexedDB.open("sluice"));
    const rows = await done(database.transaction("session").objectStore("session").getAll());
    database.close();
    const [{ signing, ...row } = {}] = rows as { signing?: CryptoKey }[];
    if (!signing) return { names, rows: rows.length };
    const forms = ["raw", "jwk"] as const;
    const exports = forms.map((form) => crypto.subtle.exportKey(form, signing).then(() => form));
    const exported = (await Promise.allSettled(exports)).map(({ status }) => status);
    return { names, rows: rows.length, row, usages: signing.usages, exported };
  });
}

describe.skipIf(!HAS_CHROMIUM)("a session", () => {
  test("survives a reload, and each tab has it, at the address that was asked for", async () => {
    await logInAt(page, server, "");
    await shown(page);
    await page.reload();
    await shown(page);
    const tab = await openTab("/keys");
    await shown(tab, "Keys");
    await tab.close();
  });

  test("survives a start of the gateway", async () => {
    await logInAt(page, server, "");
    await shown(page);
    await server.kill9();
    await server.restart();
    await page.reload();
    await page.getByText("live", { exact: true }).waitFor();
  });

  test("goes on at a page that is first opened while the gateway is away, once it is back", async () => {
    await logInAt(page, server, "");
    await shown(page);
    await server.kill9();
    await page.getByRole("link", { name: "Jobs", exact: true }).click();
    await page.getByText("it comes as soon as the gateway answers", { exact: false }).waitFor();
    expect(await faultsOf(page)).toEqual([]);
    await server.restart();
    await shown(page, "Jobs");
    await page.getByText("live", { exact: true }).waitFor();
  });

  test("comes to a tab that asks for the key when another one logs in", async () => {
    const tab = await openTab("/nodes");
    await asksForKey(tab);
    await page.goto(`${server.endpoint}/console`);
    await page.getByLabel("Access key id").fill(server.accessKeyId);
    await page.getByLabel("Secret access key").fill(server.secretAccessKey);
    await page.getByRole("button", { name: "Log in" }).click();
    await shown(tab, "Nodes");
    await tab.close();
  });

  test("is made by one request that the key signs: a reload makes no other one", async () => {
    const asked = callsOf(page);
    await logInAt(page, server, "");
    await shown(page);
    const before = await sessions();
    await page.reload();
    await shown(page);
    expect(await sessions()).toEqual(before);
    expect(asked.filter((path) => path === "/console/sessions")).toHaveLength(1);
  });

  test("is kept in a form that signs and tells nobody the secret", async () => {
    await logInAt(page, server, "");
    await shown(page);
    const [id] = await sessions();
    const kept = await keptIn(page);
    expect(kept).toEqual({
      names: ["sluice"],
      rows: 1,
      row: { id, keyId: server.accessKeyId, description: "", endsAt: expect.any(Number) },
      usages: ["sign"],
      exported: ["rejected", "rejected"],
    });
  });

  test("is ended by the log out in all tabs, and at the gateway", async () => {
    await logInAt(page, server, "");
    await shown(page);
    const [id = ""] = await sessions();
    const tab = await openTab("/nodes");
    await shown(tab, "Nodes");
    await page.getByRole("button", { name: "Log out" }).click();
    await asksForKey(page);
    await tab.getByText("Logged out in another tab.").waitFor();
    await eventually("the gateway has ended it", async () => !(await sessions()).includes(id));
    await page.reload();
    await asksForKey(page);
    await tab.close();
  });

  test("ends in this browser also if the gateway can't be told, which it says", async () => {
    await logInAt(page, server, "");
    await shown(page);
    await page.route("**/console/sessions/*", (route) => route.abort());
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByText("The gateway could not be told", { exact: false }).waitFor();
    await page.reload();
    await asksForKey(page);
  });

  test("that another one ended, or whose key is deleted, ends in all tabs", async () => {
    const body = { level: "read", description: "night shift" };
    const key = await control.call("POST", "/keys", { body, answers: KeyCreated });
    const door = { ...server, accessKeyId: key.id, secretAccessKey: key.secret };
    await logInAt(page, door, "");
    await shown(page);
    const tab = await openTab("");
    await shown(tab);
    // Both know the key by what it is for.
    for (const each of [page, tab]) await each.getByText("night shift").waitFor();
    await control.call("DELETE", `/keys/${key.id}`, { answers: z.unknown() });
    for (const each of [page, tab]) {
      await each.getByText("The session has ended", { exact: false }).waitFor({ timeout: 30_000 });
    }
    await page.reload();
    await asksForKey(page);
    await tab.close();
  });

  test("can be ended at the page of the keys, where each key has its own", async () => {
    const key = await control.call("POST", "/keys", { body: { level: "read" }, answers: KeyCreated });
    const made = await signedExchange(
      { ...server, accessKeyId: key.id, secretAccessKey: key.secret },
      { method: "POST", target: "/api/v1/console/sessions" },
    );
    const { id } = z.object({ id: z.string() }).parse(JSON.parse(made.text));
    await logInAt(page, server, "/keys");
    await shown(page, "Keys");
    const line = page.getByRole("listitem").filter({ hasText: key.id });
    await line.getByText("1 session of the console").click();
    await line.getByRole("button", { name: `End the session ${id}` }).click();
    await line.getByText("1 session of the console").waitFor({ state: "hidden" });
    // Those of the root key, which is in no list.
    const own = page.getByRole("region", { name: "Sessions of your key" });
    await own.getByText("of the console").click();
    expect(await own.getByRole("listitem").count()).toBe((await sessions()).length);
    expect(await faultsOf(page)).toEqual([]);
  });

  test("is none where the gateway has no encryption key: the tab alone has the key, and says so", async () => {
    const code = "NoEncryptionKey";
    await page.route("**/console/sessions", (route) =>
      route.fulfill({ status: 409, json: { error: { code, message: "none" }, requestId: "1" } }),
    );
    await logInAt(page, server, "");
    await shown(page);
    await page.getByText("in this tab alone").waitFor();
    expect((await keptIn(page)).rows).toBe(0);
    const tab = await openTab("");
    await asksForKey(tab);
    await tab.close();
    await page.reload();
    await asksForKey(page);
  });
});

describe.skipIf(!HAS_CHROMIUM)("the login", () => {
  test("has fields that password managers know", async () => {
    await page.goto(`${server.endpoint}/console`);
    await asksForKey(page);
    const fields = page.locator("form input");
    const told = await fields.evaluateAll((inputs) =>
      inputs.map((input) => ["type", "name", "autocomplete"].map((name) => input.getAttribute(name))),
    );
    expect(told).toEqual([
      [null, "username", "username"],
      ["password", "password", "current-password"],
    ]);
  });
});

describe.skipIf(!HAS_CHROMIUM)("a page of a public bucket", () => {
  /** What a script there would do, and what came of it. */
  const attempts = async (channelName: string) => {
    const outcome = async (act: () => unknown): Promise<string> => {
      try {
        await act();
        return "done";
      } catch (error) {
        return error instanceof DOMException ? error.name : String(error);
      }
    };
    const channel = new BroadcastChannel(channelName);
    channel.postMessage({ began: "SLUICES00000000000000" });
    return {
      origin: globalThis.origin,
      database: await outcome(() => indexedDB.open("sluice")),
      databases: await outcome(() => indexedDB.databases()),
      storage: await outcome(() => localStorage.length),
      caches: await outcome(() => caches.keys()),
      worker: await outcome(() => new Worker("/master.site/worker.js")),
      shared: await outcome(() => new SharedWorker("/master.site/worker.js")),
      service: await outcome(() => navigator.serviceWorker.register("/master.site/worker.js")),
    };
  };

  test("and its worker reach neither the session nor its key, nor the other tabs", async () => {
    const worker = `indexedDB.open("sluice").onsuccess = () => postMessage("taken");`;
    const html = `<!doctype html><script>globalThis.taken = 1; new Worker("worker.js");</script>`;
    for (const [key, type, body] of [
      ["page.html", "text/html", html],
      ["worker.js", "text/javascript", worker],
    ] as const) {
      const headers = { "content-type": type };
      const put = await signedExchange(server, {
        method: "PUT",
        target: `/master.site/${key}`,
        body,
        headers,
      });
      expect(put.status).toBe(200);
    }
    await logInAt(page, server, "");
    await shown(page);
    await page.evaluate(() => {
      const heard: unknown[] = [];
      new BroadcastChannel("sluice-session").onmessage = ({ data }) => heard.push(data);
      Object.assign(globalThis, { heard });
    });
    const hostile = await browser.context.newPage();
    await hostile.goto(`${server.endpoint}/master.site/page.html`);
    expect(await hostile.evaluate(() => "taken" in globalThis)).toBe(false);
    expect(hostile.workers()).toEqual([]);
    // As if a script did run there.
    const security = "SecurityError";
    expect(await hostile.evaluate(attempts, "sluice-session")).toEqual({
      origin: "null",
      ...{ database: security, databases: security, storage: security, caches: security },
      ...{ worker: security, shared: security, service: security },
    });
    // A message of a page of the console's own origin is heard after it: the first one never came.
    const friend = await browser.context.newPage();
    await friend.goto(`${server.endpoint}/healthz`);
    await friend.evaluate(() => new BroadcastChannel("sluice-session").postMessage({ ended: "none" }));
    const heard = await eventually("a message came", async () => {
      const all = await page.evaluate(() => (globalThis as unknown as { heard: unknown[] }).heard);
      return all.length > 0 && all;
    });
    expect(heard).toEqual([{ ended: "none" }]);
    await page.reload();
    await shown(page);
    for (const each of [hostile, friend]) await each.close();
  });
});

describe.skipIf(!HAS_CHROMIUM)("a session of yesterday", () => {
  test("that is over ends in all tabs, and a reload does not bring it back", async () => {
    const tab = await browser.context.newPage();
    // The clock is that of all tabs, and of those that are opened later: this test is the last one.
    await page.clock.install();
    await logInAt(page, server, "");
    await shown(page);
    await tab.goto(`${server.endpoint}/console`);
    await shown(tab);
    await page.clock.fastForward(SESSION_MS);
    for (const each of [page, tab]) await each.getByText("its 12 hours are over", { exact: false }).waitFor();
    await page.reload();
    await asksForKey(page);
    await tab.close();
  });
});
