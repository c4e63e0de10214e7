import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { DatabaseSync } from "node:sqlite";

const UUID = "11111111-1111-1111-1111-111111111111";
const VERSION = { version_id: "version-1", percentage: 100 };
const NO_WORKER = { code: 10007, message: "This Worker does not exist on your account." };

interface Binding {
  readonly name: string;
  readonly type: string;
}

/** What was uploaded, as Cloudflare is told of it. */
export interface Uploaded {
  readonly bindings: readonly (Binding & Readonly<Record<string, unknown>>)[];
  readonly limits: unknown;
  readonly migrations: unknown;
  readonly observability: unknown;
}

interface Fault {
  readonly code: number;
  readonly message: string;
}

/**
 * As much of Cloudflare's API as a deploy by wrangler needs, over one account that begins empty. Its D1 is SQLite. Of wrangler 4.155:
 * it says which requests it did not expect.
 */
export class FakeApi {
  uploaded: Uploaded | undefined;
  /** Whether the upload has maps of its sources. */
  hasSourceMaps = false;
  /** Whether each version has an address of its own, as an account may have it by default. */
  previews = true;
  /** Instead of the answer to a listing of secrets. */
  secretsFault: Fault | undefined;
  readonly unexpected: string[] = [];
  readonly buckets = new Set<string>();
  #database: { readonly name: string; readonly sql: DatabaseSync } | undefined;
  readonly #server: Server;

  constructor() {
    this.#server = createServer(async (request, answer) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const told = this.#answer(request, Buffer.concat(chunks).toString("latin1"));
      const isFault = typeof told === "object" && told !== null && "code" in told;
      answer.writeHead(isFault ? 404 : 200, { "content-type": "application/json" });
      const errors = isFault ? [told] : [];
      answer.end(JSON.stringify({ success: !isFault, errors, messages: [], result: isFault ? null : told }));
    });
  }

  /** Starts it; returns the variables by which wrangler finds it. */
  async start(): Promise<Record<string, string>> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const { port } = this.#server.address() as AddressInfo;
    return { CLOUDFLARE_API_TOKEN: "some-token", CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${port}` };
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** The migrations that D1 has been through. */
  get migrations(): unknown[] {
    const rows = this.#database?.sql.prepare("SELECT name FROM d1_migrations ORDER BY id").all() ?? [];
    return rows.map(({ name }) => name);
  }

  #answer({ method, url = "/" }: IncomingMessage, body: string): unknown {
    const path = new URL(url, "http://api").pathname.replace(/^\/accounts\/account-1/, "/account");
    const script = "/account/workers/scripts/sluice";
    switch (`${method} ${path}`) {
      case "GET /user/tokens/verify":
        return { id: "token", status: "active" };
      case "GET /user":
        return { id: "user", email: "somebody@example.com" };
      case "GET /accounts":
        return [{ id: "account-1", name: "The only one" }];
      case "GET /memberships":
        return [{ account: { id: "account-1", name: "The only one" } }];
      case `GET ${script}/secrets`:
        return this.secretsFault ?? this.#secrets();
      case "GET /account/d1/database":
        return this.#database ? [{ uuid: UUID, name: this.#database.name }] : [];
      case "POST /account/d1/database":
        this.#database = { name: JSON.parse(body).name, sql: new DatabaseSync(":memory:") };
        return { uuid: UUID, name: this.#database.name };
      case `GET /account/d1/database/${UUID}`:
      case `GET /account/d1/database/${this.#database?.name}`:
        return { uuid: UUID, name: this.#database?.name, version: "production" };
      case `POST /account/d1/database/${UUID}/query`:
        return [{ results: this.#query(JSON.parse(body).sql), success: true, meta: { duration: 1 } }];
      case "POST /account/r2/buckets":
        this.buckets.add(JSON.parse(body).name);
        return {};
      case "GET /account/workers/services/sluice":
      case `GET ${script}/settings`:
        return NO_WORKER;
      // Nothing of the console's files is missing: what is uploaded names them by this token.
      case `POST ${script}/assets-upload-session`:
        return { jwt: "completion-token", buckets: [] };
      case `PUT ${script}`:
        this.uploaded = JSON.parse(/name="metadata"[^{]*(\{.*?\})\r\n--/s.exec(body)?.[1] ?? "null");
        this.hasSourceMaps = body.includes("application/source-map");
        return { id: "version-1", deployment_id: "deployment-1", startup_time_ms: 1 };
      case `PATCH ${script}/script-settings`:
        return {};
      case "GET /account/workers/workers/sluice":
        return {
          id: "worker-1",
          name: "sluice",
          subdomain: { enabled: true, previews_enabled: this.previews },
        };
      case "GET /account/workers/subdomain":
        return { subdomain: "example" };
      case `POST ${script}/subdomain`:
        this.previews = JSON.parse(body).previews_enabled;
        return { enabled: true, previews_enabled: this.previews };
      case `GET ${script}/deployments`:
        return { deployments: this.uploaded ? [{ id: "deployment-1", versions: [VERSION] }] : [] };
      case `GET ${script}/versions/${VERSION.version_id}`:
        return { id: VERSION.version_id, resources: { bindings: this.uploaded?.bindings } };
      default:
        return this.#other(`${method} ${path}`);
    }
  }

  #other(asked: string): unknown {
    const [, bucket] = /^GET \/account\/r2\/buckets\/(.+)$/.exec(asked) ?? [];
    if (bucket !== undefined && this.buckets.has(bucket)) return { name: bucket };
    this.unexpected.push(asked);
    return { code: 7003, message: "unknown route" };
  }

  #secrets(): unknown {
    if (!this.uploaded) return NO_WORKER;
    return this.uploaded.bindings
      .filter(({ type }) => type === "secret_text")
      .map(({ name, type }) => ({ name, type }));
  }

  #query(text: string): unknown[] {
    if (/^\s*select/i.test(text)) return this.#database?.sql.prepare(text).all() ?? [];
    this.#database?.sql.exec(text);
    return [];
  }
}
