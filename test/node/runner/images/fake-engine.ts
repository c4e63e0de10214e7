import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import Dockerode from "dockerode";
import { removeScratch, scratchFolder } from "../../../support/scratch.ts";

/** One call to pull that the engine was given. */
export interface PullCall {
  readonly image: string;
  /** The value of its header with credentials; undefined if it has none. */
  readonly auth: unknown;
  readonly response: ServerResponse;
}

/** The part of an engine's API that pulls images, to do what a real one does only when things go wrong. */
export class FakeEngine {
  readonly pulls: PullCall[] = [];
  /** What it was asked about a registry without being told to pull. */
  readonly questions: Omit<PullCall, "response">[] = [];
  /** Names under which it has an image. */
  readonly images = new Set<string>();
  /** By which digests it says that it has one of them, by its name. */
  readonly digests = new Map<string, readonly string[]>();
  /** Answers a pull. */
  onPull: (call: PullCall) => void = ({ response }) => response.end();
  /** Answers such a question: undefined is yes, "silence" no answer, any other text the registry's refusal. */
  onQuestion: (question: Omit<PullCall, "response">) => string | undefined = () => undefined;
  readonly #folder = scratchFolder();
  readonly #server = createServer((request, response) => this.#answer(request, response));
  readonly client = new Dockerode({ host: "", socketPath: join(this.#folder, "engine.sock") });

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(join(this.#folder, "engine.sock"), resolve));
  }

  #answer({ method, url = "", headers }: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(url, "http://engine");
    const header = headers["x-registry-auth"];
    const auth =
      header === undefined ? undefined : JSON.parse(Buffer.from(`${header}`, "base64url").toString());
    if (method === "POST" && pathname === "/images/create") {
      const call = { image: searchParams.get("fromImage") ?? "", auth, response };
      this.pulls.push(call);
      this.onPull(call);
      return;
    }
    const [, asked] = /^\/distribution\/(.+)\/json$/.exec(decodeURIComponent(pathname)) ?? [];
    if (asked !== undefined) {
      const question = { image: asked, auth };
      this.questions.push(question);
      const message = this.onQuestion(question);
      if (message === "silence") return;
      response.writeHead(message === undefined ? 200 : 403, { "content-type": "application/json" });
      response.end(JSON.stringify(message === undefined ? {} : { message }));
      return;
    }
    const name = /^\/images\/(.+)\/json$/.exec(decodeURIComponent(pathname))?.[1] ?? "";
    const found = this.images.has(name);
    response.writeHead(found ? 200 : 404, { "content-type": "application/json" });
    const image = { Id: `id of ${name}`, RepoDigests: this.digests.get(name) ?? [] };
    response.end(JSON.stringify(found ? image : { message: "no such image" }));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    removeScratch(this.#folder);
  }
}
