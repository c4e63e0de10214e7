import { NODE_TTL_MS, type Node, type NodeList } from "../../protocol/runner.ts";
import { type ApiRequest, noQuery } from "./api-request.ts";

/** Nodes that have been silent for longer are not shown. */
const SHOWN_MS = 24 * 60 * 60 * 1000;

/** `GET /nodes` */
export async function listNodes(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const now = Date.now();
  const rows = await asked.context.catalogue.nodes.seenSince(now - SHOWN_MS);
  const nodes: Node[] = rows.map((row) => ({ ...row, live: row.seenAt >= now - NODE_TTL_MS }));
  return Response.json({ nodes } satisfies NodeList);
}
