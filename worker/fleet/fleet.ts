import { DurableObject } from "cloudflare:workers";
import {
  QUIET_HEARTBEAT_MS,
  SOCKET_PING,
  SOCKET_PONG,
  SOCKET_RETURN_MS,
  type WakeUp,
} from "../../protocol/runner.ts";
import { openCatalogue } from "../catalogue/catalogue.ts";
import type { Env } from "../env.ts";
import { Engine, earliest } from "../objects/engine.ts";
import { answer, type Faceted, type Facets } from "../objects/facets.ts";
import { readAssignments } from "./assignments.ts";
import { FLEET_NAME, type FleetApi, KEY_PARAMETER, NODE_PARAMETER } from "./door.ts";
import { KnownAssignments } from "./known-assignments.ts";
import { Ledger, VOUCH_EACH_MS } from "./ledger.ts";

/** Two wake-ups are so far apart at least: what changes at once wakes nodes once. */
const APART_MS = 100;
/**
 * For each socket, nodes are given so long to beat: a large fleet asks a hundred times a second, and a small one at once. One that
 * comes back beats as well, since it may have missed a wake-up, and is given longer: a whole fleet comes back at once.
 */
const EACH_MS = 10;
const EACH_BACK_MS = 40;
/** Before anything is said, it is looked whether the keys of sockets are still there, unless that was done a moment ago. */
const KEYS_CHECKED_MS = 60_000;
/** Nodes that are told to be gone at a time. */
const GONE_TOGETHER = 100;
/** A socket over which no ping came for so long is closed: one comes each SOCKET_PING_MS. */
const SILENT_MS = 60_000;

/** Another socket of the same node took the place of this one; the node left; nothing is taken by a socket but pings. */
const REPLACED = 4001;
const REVOKED = 4003;
const SILENT = 4008;
const LEFT = 1000;
const UNASKED = 1003;

const FACETS: Facets<FleetApi, FleetApi["nodes"]> = {
  nodes: {
    wake: (reach) => reach.wake(),
    wakeWorkers: (reach, pipeline) => reach.wakeWorkers(pipeline),
    leave: (reach, node) => reach.leave(node),
    revoke: (reach, key) => reach.revoke(key),
    assigned: (reach, node) => reach.assigned(node),
  },
};

/**
 * What wakes the fleet. Each node has a WebSocket here while it lives, and is woken over it: then it sends a heartbeat
 * and hears what it is to have. So a node to which nothing happens need not ask. The object sleeps all the while: the platform
 * keeps the sockets of an object that is not in memory, and answers pings for it.
 *
 * Nothing here is the truth. What a node is to have is in the catalogue; so is whether it lives: by its last heartbeat, or if it is quiet
 * since this object vouches for it, which it does each minute for all nodes that have sockets, by one row. So what a quiet node has to say is
 * not written down again and again. If the object is silent, heartbeats are written down as before. A node whose socket closes, or over
 * whose socket no ping comes, and that has not come back GONE_MS later, is gone (unless it was heard of since). If the object
 * forgot all it knows, nodes would be noticed later, and none would be lost.
 *
 * An instance that comes up may lack sockets of nodes on record: it crashed, or was deployed anew. (Waking from sleep keeps
 * them.) Those nodes have GONE_MS to come back, from then on, and the others are not told when they do.
 */
export class Fleet extends DurableObject<Env> implements Faceted {
  readonly #ledger: Ledger;
  readonly #engine: Engine;
  readonly #calls: FleetApi["nodes"];
  readonly #assignments: KnownAssignments;
  /** What the next wake-up says. */
  readonly #next = { beat: false, work: new Set<string>() };
  #wokeAt = Number.NEGATIVE_INFINITY;
  #checkedKeysAt = Number.NEGATIVE_INFINITY;
  #nextWakeUp: ReturnType<typeof setTimeout> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const ledger = new Ledger(ctx.storage);
    const engine = new Engine({
      object: () => "the fleet",
      exists: () => ledger.exists,
      now: Date.now,
      storage: ctx.storage,
      loops: [
        {
          name: "tell",
          due: () => earliest(ledger.nodes.nextGone(), this.#nextVouch()),
          step: () => this.#tell(),
        },
      ],
    });
    ledger.listener = (woken) => engine.woken(woken);
    this.#assignments = new KnownAssignments(
      () => readAssignments(openCatalogue(env.DB), { now: Date.now(), marksIdle: true }),
      Date.now,
    );
    this.#ledger = ledger;
    this.#engine = engine;
    this.#calls = {
      wake: async () => this.#wake(),
      wakeWorkers: async (pipeline) => this.#wake(pipeline),
      leave: async (node) => this.#leave(node),
      revoke: async (key) => {
        this.#revoke((of) => of === key);
        // Another isolate may remember the key for some seconds, and let somebody in with it.
        this.#checkedKeysAt = Number.NEGATIVE_INFINITY;
      },
      assigned: (node) => this.#assignments.of(node),
    };
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(SOCKET_PING, SOCKET_PONG));
    if (ledger.exists) this.#missSockets();
    void engine.resume();
  }

  override async alarm(): Promise<void> {
    await this.#engine.alarm();
  }

  async call(name: string, args: readonly unknown[]): Promise<unknown> {
    return await answer(FACETS, { name, args, reach: this.#calls });
  }

  /** Takes a node's socket. */
  override async fetch(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const node = searchParams.get(NODE_PARAMETER) ?? "";
    const key = searchParams.get(KEY_PARAMETER) ?? undefined;
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ledger.makeTables();
    const before = this.ctx.getWebSockets(node);
    this.ctx.acceptWebSocket(server, [node]);
    server.serializeAttachment({ node, key, openedAt: Date.now() } satisfies Opener);
    for (const socket of before) socket.close(REPLACED, "another socket of this node took its place");
    const { nodes } = this.#ledger;
    if (this.#ledger.transaction((tx) => nodes.come(tx, node))) this.#wake();
    const withinMs = Math.min(nodes.count * EACH_BACK_MS, QUIET_HEARTBEAT_MS);
    server.send(textOf({ beat: { withinMs } }));
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(socket: WebSocket): Promise<void> {
    socket.close(UNASKED, "nothing is taken here but pings");
  }

  override async webSocketClose(socket: WebSocket): Promise<void> {
    this.#closed(socket);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    this.#closed(socket);
  }

  #closed(socket: WebSocket): void {
    const { node } = openerOf(socket);
    if (this.#sockets(node).some((other) => other !== socket)) return;
    this.#ledger.transaction((tx) => this.#ledger.nodes.closed(tx, node, Date.now()));
  }

  #missSockets(): void {
    const { nodes } = this.#ledger;
    const there = new Set(this.#sockets().map((socket) => openerOf(socket).node));
    const missing = nodes.open().filter((node) => !there.has(node));
    if (missing.length === 0) return;
    this.#ledger.transaction((tx) => {
      for (const node of missing) nodes.closed(tx, node, Date.now());
    });
  }

  /** Tells the catalogue of nodes: who is gone, then who is there. One after the other, so that nobody is there again who is gone. */
  async #tell(): Promise<boolean> {
    if (await this.#tellGone()) return true;
    const due = this.#nextVouch();
    if (due === undefined || due > Date.now()) return false;
    await this.#vouch();
    return true;
  }

  async #tellGone(): Promise<boolean> {
    const { nodes } = this.#ledger;
    const gone = nodes.gone(Date.now(), GONE_TOGETHER);
    if (gone.length === 0) return false;
    await openCatalogue(this.env.DB).nodes.disquiet(gone);
    this.#ledger.transaction((tx) => {
      const back = gone.filter((node) => !nodes.forget(tx, node));
      if (back.length > 0) nodes.vouchSoon(tx);
    });
    this.#wake();
    return true;
  }

  /** A clock that was set back makes it no later. */
  #nextVouch(): number | undefined {
    const due = this.#ledger.nodes.nextVouch();
    return due === undefined ? undefined : Math.min(due, Date.now() + VOUCH_EACH_MS);
  }

  /** Closes sockets that are silent or whose key is no more, and tells the catalogue which nodes there are. */
  async #vouch(): Promise<void> {
    const now = Date.now();
    for (const socket of this.#sockets()) {
      const pingedAt = this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime();
      if (now - (pingedAt ?? openerOf(socket).openedAt) < SILENT_MS) continue;
      this.#cut(socket, SILENT, "the node was silent");
    }
    await this.#checkKeys();
    const { nodes } = this.#ledger;
    const name = this.ctx.id.name ?? FLEET_NAME;
    await openCatalogue(this.env.DB).nodes.vouch(name, { nodes: nodes.all(), now });
    this.#ledger.transaction((tx) => nodes.vouched(tx, now));
  }

  #leave(node: string): void {
    if (!this.#ledger.exists) return;
    this.#ledger.transaction((tx) => this.#ledger.nodes.leave(tx, node));
    for (const socket of this.#sockets(node)) socket.close(LEFT, "the node left");
    this.#wake();
  }

  /** The workers of a pipeline, or all nodes, which are to beat. */
  #wake(pipeline?: string): void {
    this.#assignments.forget();
    if (pipeline === undefined) this.#next.beat = true;
    else this.#next.work.add(pipeline);
    if (this.#nextWakeUp !== undefined) return;
    // A clock that was set back makes no wait longer.
    const waitMs = Math.min(Math.max(this.#wokeAt + APART_MS - Date.now(), 0), APART_MS);
    this.#nextWakeUp = setTimeout(() => {
      this.#nextWakeUp = undefined;
      this.#wokeAt = Date.now();
      void this.#recheckKeys().then(() => this.#say());
    }, waitMs);
  }

  #say(): void {
    const sockets = this.#sockets();
    const withinMs = Math.min(sockets.length * EACH_MS, SOCKET_RETURN_MS);
    const { beat, work } = this.#next;
    if (!beat && work.size === 0) return;
    const wakeUp = textOf({
      ...(beat && { beat: { withinMs } }),
      ...(work.size > 0 && { work: [...work] }),
    });
    this.#next.beat = false;
    work.clear();
    for (const socket of sockets) socket.send(wakeUp);
  }

  async #recheckKeys(): Promise<void> {
    if (Math.abs(Date.now() - this.#checkedKeysAt) >= KEYS_CHECKED_MS) await this.#checkKeys();
  }

  /**
   * Whoever deleted a key may not have reached the object, and a socket may have been opened with one that another isolate still
   * remembered.
   */
  async #checkKeys(): Promise<void> {
    const now = Date.now();
    this.#checkedKeysAt = now;
    try {
      const keys = new Set(this.#sockets().flatMap((socket) => openerOf(socket).key ?? []));
      if (keys.size === 0) return;
      const standing = await openCatalogue(this.env.DB).keys.standing([...keys], now);
      this.#revoke((key) => keys.has(key) && !standing.has(key));
    } catch (error) {
      console.warn("the catalogue can't be asked for the keys of nodes", error);
    }
  }

  #revoke(isRevoked: (key: string) => boolean): void {
    for (const socket of this.#sockets()) {
      const { key } = openerOf(socket);
      if (key === undefined || !isRevoked(key)) continue;
      this.#cut(socket, REVOKED, "the key by which it was opened is no more");
    }
  }

  /** Its other end may never answer. */
  #cut(socket: WebSocket, code: number, reason: string): void {
    socket.close(code, reason);
    this.#closed(socket);
  }

  /** Those that are open, of one node or of all. */
  #sockets(node?: string): WebSocket[] {
    return this.ctx.getWebSockets(node).filter(({ readyState }) => readyState === WebSocket.OPEN);
  }
}

/** Who opened a socket, and with which key of the catalogue: a key of the gateway's own is none. */
interface Opener {
  readonly node: string;
  readonly key: string | undefined;
  readonly openedAt: number;
}

function openerOf(socket: WebSocket): Opener {
  return socket.deserializeAttachment();
}

function textOf(wakeUp: WakeUp): string {
  return JSON.stringify(wakeUp);
}
