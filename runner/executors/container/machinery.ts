import type { Limits, NamedSecret } from "../executor.ts";
import type { Disposal } from "./engine/disposal.ts";
import type { Engine } from "./engine/engine.ts";
import type { Owner } from "./engine/labels.ts";

/** What all the sandboxes of an agent share. */
export interface Machinery {
  readonly engine: Engine;
  readonly owner: Owner;
  readonly limits: Limits;
  readonly disposal: Disposal;
}

/** What the containers of one sandbox share. */
export interface WorkerTerms {
  /** The worker's folder. */
  readonly dir: string;
  /** As the spec names it. */
  readonly image: string;
  readonly pipeline: string;
  readonly pullSecrets: readonly NamedSecret[];
}
