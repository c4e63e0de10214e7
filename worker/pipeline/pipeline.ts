import { DurableObject } from "cloudflare:workers";
import type { Env } from "../env.ts";

/** One per pipeline. */
export class Pipeline extends DurableObject<Env> {}
