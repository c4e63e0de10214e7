import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { forgetSession, HAS_CHROMIUM, openBrowser, type TestBrowser } from "./browser.ts";
import { Control } from "./control.ts";
import { type DevServer, startDevServer, startRunner } from "./dev-server.ts";
import type { Started } from "./processes.ts";
import { S3 } from "./s3.ts";

/** What the tests of a file about the console stand on. */
export interface Stage {
  readonly server: DevServer;
  readonly control: Control;
  readonly s3: S3;
  readonly browser: TestBrowser;
}

interface StageOptions {
  /** The name of a node whose runner is there. */
  readonly node?: string;
  /** Fills the gateway, before the first test. */
  begin(stage: Stage): void | Promise<void>;
  /** Takes a new page before each test, which is closed after it. Absent: tests open their own. */
  opened?(page: Page): void;
}

/** A gateway and a browser for the tests of a file; nothing if the machine has no browser. */
export function setStage({ node, begin, opened }: StageOptions): void {
  let server: DevServer | undefined;
  let runner: Started | undefined;
  let browser: TestBrowser | undefined;
  let page: Page | undefined;

  beforeAll(async () => {
    if (!HAS_CHROMIUM) return;
    [server, browser] = await Promise.all([startDevServer(), openBrowser()]);
    if (node !== undefined) runner = startRunner(server, { node });
    await begin({ server, control: new Control(server), s3: new S3(server), browser });
  }, 120_000);

  afterAll(async () => {
    await browser?.close();
    await runner?.stop();
    await server?.stop();
  });

  if (!opened) return;
  beforeEach(async () => {
    page = await browser?.context.newPage();
    if (!page || !server) return;
    await forgetSession(page, server.endpoint);
    opened(page);
  });
  afterEach(() => page?.close());
}
