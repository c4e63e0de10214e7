import type { Node, NodeList } from "../../../protocol/runner.ts";
import { isAlive, type NodeRow } from "../../catalogue/nodes.ts";
import { conditionalJson } from "../answer/conditional.ts";
import { apiError } from "../answer/errors.ts";
import { type ApiRequest, type Handler, nameParam } from "../request/api-request.ts";

/** Nodes that have been silent for longer are not shown, unless they are being drained. */
const SHOWN_MS = 24 * 60 * 60 * 1000;

/**
 * `GET /nodes`: 304 until something is new to who brings the ETag of the last answer. That a live node was heard of again is
 * nothing new.
 */
export async function listNodes(asked: ApiRequest): Promise<Response> {
  const now = Date.now();
  const rows = await asked.context.catalogue.nodes.list(now - SHOWN_MS);
  const nodes = rows.map((row) => shown(row, now));
  // Nor are bytes that came and went.
  const news = nodes.map(({ seenAt, about, ...node }) => ({
    ...node,
    version: about?.version,
    ...(!node.live && { seenAt }),
  }));
  return await conditionalJson(asked.request, {
    body: { nodes: news },
    fleeting: { nodes } satisfies NodeList,
  });
}

/** `POST /nodes/{node}/drain`: the node finishes what runs and gets nothing new until it is resumed. */
export const drainNode: Handler = (asked) => mark(asked, 1);

/** `POST /nodes/{node}/resume` */
export const resumeNode: Handler = (asked) => mark(asked, 0);

async function mark(asked: ApiRequest, draining: 0 | 1): Promise<Response> {
  const name = nameParam(asked, "node");
  const row = await asked.context.catalogue.nodes.setDraining(name, draining);
  if (!row)
    throw apiError.NoSuchNode(`There is no node '${name}': 'sluice node list' shows those there are.`);
  await asked.context.fleet.wake();
  return Response.json(shown(row, Date.now()));
}

function shown({ work, bounds, quietUntil, ...row }: NodeRow, now: number): Node {
  const live = isAlive({ ...row, quietUntil }, now);
  return { ...row, work: [...work], ...(bounds && { bounds }), live };
}
