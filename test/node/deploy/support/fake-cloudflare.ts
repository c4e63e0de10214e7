import { readFileSync, writeFileSync } from "node:fs";
import type { DeployDeps } from "../../../../scripts/deploy/deploy.ts";
import type { Ran, RunWrangler } from "../../../../scripts/deploy/wrangler.ts";

const ENDPOINT = "https://sluice.example.workers.dev";
const OK: Ran = { code: 0, stdout: "", stderr: "" };

/** An account of Cloudflare as `wrangler` shows it, with the gateway that is deployed there. It keeps what it was told. */
export class FakeCloudflare {
  readonly databases = new Set<string>();
  readonly buckets = new Set<string>();
  /** Of the Worker; undefined: there is none. */
  secrets: Record<string, string> | undefined;
  /** Tables of D1, and the word of their family. */
  tables = ["d1_migrations", "sqlite_sequence", "_cf_KV", "branches", "family"];
  family = "sluice-1";
  /** Of the objects of what is deployed. */
  jurisdiction: string | undefined;
  /** Access keys in D1. */
  keys = 0;
  loggedIn = true;
  accounts = [{ id: "account-1", name: "The first" }];
  /** The commands that came, without the environment. */
  readonly calls: string[] = [];
  /** What was said to the person who deploys. */
  readonly said: string[] = [];
  /** Answers for a command by its beginning, once each. `after`: it is done, and its answer is lost. */
  readonly failing = new Map<string, { readonly stderr: string; readonly after?: true }>();
  /** Files of the gateway's buckets. */
  readonly #files = new Map<string, Uint8Array>();
  #ready = true;

  /** What a deploy is given; `answers` are those of a person, in order. Absent: nobody is there. */
  deps(answers?: string[], env: Record<string, string> = {}): DeployDeps {
    return {
      run: this.run,
      env,
      ask: answers && (() => Promise.resolve(answers.shift() ?? "")),
      login: async () => {
        this.loggedIn = true;
      },
      fetch: this.#fetch,
      again: async () => false,
      say: (line) => this.said.push(line),
    };
  }

  /** The gateway lacks something. */
  becomeUnready(): void {
    this.#ready = false;
  }

  becomeReady(): void {
    this.#ready = true;
  }

  readonly run: RunWrangler = async (args, env) => {
    const command = args.filter((arg) => !arg.startsWith("--env=")).join(" ");
    this.calls.push(command.replaceAll(/\/\S+/g, "<file>"));
    for (const [beginning, { stderr, after }] of this.failing) {
      if (!command.startsWith(beginning)) continue;
      this.failing.delete(beginning);
      if (after) await this.#answer(command, env);
      return { code: 1, stdout: "", stderr };
    }
    return await this.#answer(command, env);
  };

  async #answer(command: string, env: RunEnv): Promise<Ran> {
    const [, name = ""] = /^(?:d1|r2 bucket) create (\S+)(?: --jurisdiction \S+)?$/.exec(command) ?? [];
    if (command.startsWith("whoami")) return this.#whoami();
    if (command.startsWith("deploy --dry-run"))
      return { ...OK, stdout: "Total Upload: 1 KiB / gzip: 1 KiB\n" };
    if (command.startsWith("secret list")) return this.#listSecrets();
    if (command === "d1 list --json") return json([...this.databases].map((one) => ({ name: one })));
    if (command.startsWith("d1 create")) return this.#make(this.databases, name);
    if (command.startsWith("r2 bucket create")) return this.#make(this.buckets, name);
    if (command.endsWith("FROM sqlite_master WHERE type = 'table'"))
      return json([{ results: this.tables.map((name) => ({ name })), success: true }]);
    if (command.endsWith("FROM family")) return json([{ results: [{ name: this.family }], success: true }]);
    if (command.startsWith("d1 execute")) return json([{ results: [{ n: this.keys }], success: true }]);
    if (command.startsWith("d1 migrations apply")) return OK;
    if (command === "deployments status --json") return json({ versions: [{ version_id: "version-1" }] });
    if (command === "versions view version-1 --json")
      return json({ resources: { bindings: this.#bindings() } });
    if (command.startsWith("deploy")) return this.#deploy(command, env);
    throw new Error(`unknown command: ${command}`);
  }

  #bindings(): unknown[] {
    const { jurisdiction: text } = this;
    const db = { name: "DB", type: "d1" };
    return text === undefined ? [db] : [db, { name: "SLUICE_JURISDICTION", type: "plain_text", text }];
  }

  #whoami(): Ran {
    return this.loggedIn
      ? json({ accounts: this.accounts })
      : { code: 1, stdout: '{"loggedIn": false}', stderr: "" };
  }

  #listSecrets(): Ran {
    if (this.secrets) return json(Object.keys(this.secrets).map((name) => ({ name, type: "secret_text" })));
    return { code: 1, stdout: "", stderr: 'X [ERROR] Worker "sluice" not found.\n' };
  }

  #make(things: Set<string>, name: string): Ran {
    if (things.has(name))
      return { code: 1, stdout: "", stderr: "it already exists, and you own it. [code: 10004]" };
    things.add(name);
    return OK;
  }

  #deploy(command: string, env: RunEnv): Ran {
    const [, file] = /--secrets-file (\S+)/.exec(command) ?? [];
    this.secrets = { ...this.secrets, ...(file ? JSON.parse(readFileSync(file, "utf8")) : {}) };
    const told = { type: "deploy", version_id: "version-1", targets: [ENDPOINT] };
    writeFileSync(
      env?.WRANGLER_OUTPUT_FILE_PATH ?? "",
      `{"type":"wrangler-session"}\n${JSON.stringify(told)}\n`,
    );
    return OK;
  }

  readonly #fetch: typeof fetch = async (input) => {
    const request = new Request(input);
    const { pathname: path, origin } = new URL(request.url);
    if (origin !== ENDPOINT) throw new Error(`asked ${origin}`);
    if (path === "/healthz") return new Response("ok\n");
    if (path === "/readyz") {
      const causes = [{ check: "blobs", cause: "R2 is away.", fix: "Look at R2." }];
      return Response.json(
        this.#ready ? { ready: true, failed: [] } : { ready: false, failed: ["blobs"], causes },
      );
    }
    const id = this.secrets?.SLUICE_ACCESS_KEY_ID ?? "";
    if (!request.headers.get("authorization")?.includes(`Credential=${id}/`))
      return new Response("", { status: 403 });
    if (path.split("/").length === 2)
      return new Response(null, { status: request.method === "PUT" ? 200 : 204 });
    if (request.method === "PUT") this.#files.set(path, new Uint8Array(await request.arrayBuffer()));
    if (request.method === "DELETE") this.#files.delete(path);
    const bytes = this.#files.get(path);
    if (request.method === "GET")
      return bytes ? new Response(bytes.slice()) : new Response("", { status: 404 });
    return new Response(null, { status: 204 });
  };
}

type RunEnv = Parameters<RunWrangler>[1];

function json(value: unknown): Ran {
  return { ...OK, stdout: JSON.stringify(value) };
}
