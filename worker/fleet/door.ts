import type { Assignment } from "../../protocol/runner.ts";
import { openCatalogue } from "../catalogue/catalogue.ts";
import { type Env, objectsOf } from "../env.ts";
import { within } from "../objects/engine.ts";
import { clientOf } from "../objects/facets.ts";
import { readAssignments } from "./assignments.ts";

/** The one fleet object. */
export const FLEET_NAME = "fleet";
/** Who wakes nodes waits for the object at most so long. */
const WAKE_MS = 2_000;
/** Who asks for a socket, and with which key of the catalogue, as parameters of the URL: the object is reached by the Worker alone. */
export const NODE_PARAMETER = "node";
export const KEY_PARAMETER = "key";

/** What the Fleet object does for others. */
export interface FleetApi {
  readonly nodes: NodeCalls & AssignmentCalls;
}

interface NodeCalls {
  /** Wakes all nodes that have a socket: what they are to have may have changed. */
  wake(): Promise<void>;
  /** Wakes the workers of a pipeline, which has something to do. */
  wakeWorkers(pipeline: string): Promise<void>;
  /** A node left in good order. */
  leave(node: string): Promise<void>;
  /** A key was deleted: sockets that were opened with it are closed. If the object is not told, it finds that within a minute. */
  revoke(key: string): Promise<void>;
}

interface AssignmentCalls {
  /** What a node is to run; undefined: the catalogue has not heard that it lives. */
  assigned(node: string): Promise<Assignment["workers"] | undefined>;
}

/** Of a node that beats. */
interface Beating {
  /** The gateway takes sockets: it is woken when a pipeline that it is told to be idle has a job. */
  readonly isWoken: boolean;
  readonly isQuiet: boolean;
}

/** The way to the Fleet object. */
export interface FleetDoor extends NodeCalls {
  /**
   * Opens a socket for a node, which takes the place of one that it has: the answer to its upgrade. `key`: the one of the catalogue by which
   * it may; absent: it is one of the gateway's own.
   */
  open(node: string, key?: string): Promise<Response>;
  /** These nodes let leases run out: one that is not heard of counts as dead, and the others are woken to take its share. */
  suspect(names: readonly string[]): Promise<void>;
  /** What a node is to run. For quiet nodes the object asks the catalogue, once for many; if it can't be asked, it is asked for each. */
  assigned(node: string, beating: Beating): Promise<Assignment["workers"]>;
}

/**
 * Waking never fails: a node that does not hear it asks by itself after QUIET_HEARTBEAT_MS. So nothing else waits for the
 * object or fails with it.
 */
export function openFleet(env: Pick<Env, "FLEET" | "DB" | "SLUICE_JURISDICTION">): FleetDoor {
  // Anew for each call: what refers to an object that broke off stays broken.
  const fleet = () => objectsOf(env, "FLEET").getByName(FLEET_NAME);
  const { nodes } = clientOf<FleetApi>({ call: async (name, args) => await fleet().call(name, args) });
  const asked = <T>(call: Promise<T>, what: string): Promise<T | undefined> =>
    within(
      WAKE_MS,
      call.catch((error: unknown) => {
        console.warn(`${what}: ${error}`);
        return undefined;
      }),
    );
  const woken = async (call: Promise<void>) => await asked(call, "the nodes could not be woken");
  return {
    wake: () => woken(nodes.wake()),
    wakeWorkers: (pipeline) => woken(nodes.wakeWorkers(pipeline)),
    leave: (node) => woken(nodes.leave(node)),
    suspect: (names) =>
      woken(
        openCatalogue(env.DB)
          .nodes.suspect(names, Date.now())
          .then((isSilent) => (isSilent ? nodes.wake() : undefined)),
      ),
    async assigned(node, { isWoken, isQuiet }) {
      const known = isWoken && isQuiet ? nodes.assigned(node) : undefined;
      const shares = known && (await asked(known, "the Fleet object does not say what nodes are to run"));
      if (shares) return shares;
      const read = await readAssignments(openCatalogue(env.DB), { now: Date.now(), marksIdle: isWoken });
      return read.of(node) ?? [];
    },
    revoke: (key) => woken(nodes.revoke(key)),
    open(node, key) {
      const url = new URL("http://fleet/");
      url.searchParams.set(NODE_PARAMETER, node);
      if (key !== undefined) url.searchParams.set(KEY_PARAMETER, key);
      return fleet().fetch(url, { headers: { upgrade: "websocket" } });
    },
  };
}
