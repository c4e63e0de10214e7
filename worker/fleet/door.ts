import { type Env, objectsOf } from "../env.ts";
import { within } from "../objects/engine.ts";
import { clientOf } from "../objects/facets.ts";

/** The one fleet object. */
const NAME = "fleet";
/** Who wakes nodes waits for the object at most so long. */
const WAKE_MS = 2_000;
/** Who asks for a socket, as a parameter of the URL: the object is reached by the Worker alone. */
export const NODE_PARAMETER = "node";

/** What the Fleet object does for others. */
export interface FleetApi {
  readonly nodes: NodeCalls;
}

export interface NodeCalls {
  /** Wakes all nodes that have a socket: what they are to have may have changed. */
  wake(): Promise<void>;
  /** Wakes the workers of a pipeline, which has something to do. */
  wakeWorkers(pipeline: string): Promise<void>;
  /** A node left in good order. */
  leave(node: string): Promise<void>;
}

/** The way to the Fleet object. */
export interface FleetDoor extends NodeCalls {
  /** Opens a socket for a node, which takes the place of one that it has: the answer to its upgrade. */
  open(node: string): Promise<Response>;
}

/**
 * Waking never fails: a node that does not hear it asks by itself after QUIET_HEARTBEAT_MS. So nothing else waits for the
 * object or fails with it.
 */
export function openFleet(env: Pick<Env, "FLEET" | "SLUICE_JURISDICTION">): FleetDoor {
  // Anew for each call: what refers to an object that broke off stays broken.
  const fleet = () => objectsOf(env, "FLEET").getByName(NAME);
  const { nodes } = clientOf<FleetApi>({ call: async (name, args) => await fleet().call(name, args) });
  const woken = (call: Promise<void>) =>
    within(
      WAKE_MS,
      call.catch((error: unknown) => console.warn(`the nodes could not be woken: ${error}`)),
    );
  return {
    wake: () => woken(nodes.wake()),
    wakeWorkers: (pipeline) => woken(nodes.wakeWorkers(pipeline)),
    leave: (node) => woken(nodes.leave(node)),
    open(node) {
      const url = new URL("http://fleet/");
      url.searchParams.set(NODE_PARAMETER, node);
      return fleet().fetch(url, { headers: { upgrade: "websocket" } });
    },
  };
}
