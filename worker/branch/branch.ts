import { DurableObject } from "cloudflare:workers";
import type { Env } from "../env.ts";

/** One per branch. */
export class Branch extends DurableObject<Env> {}
