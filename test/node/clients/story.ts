import type { Client, Extra, Extras } from "../../support/clients/client.ts";
import type { Control } from "../../support/control.ts";
import type { S3 } from "../../support/s3.ts";
import type { LargeSample } from "./large-sample.ts";

/** What every client must be able to do that has the words for it. */
export interface Story {
  readonly sentence: string;
  readonly needs: readonly Extra[];
  tell(stage: Stage<Extra>): Promise<void>;
}

export interface Stage<Verb extends Extra> {
  readonly client: Client & Pick<Extras, Verb>;
  /** Empty, and the story's own. */
  readonly bucket: string;
  /** An empty folder on disk, the story's own. */
  readonly scratch: string;
  /** What the gateway itself says, past the client. */
  readonly s3: S3;
  readonly control: Control;
  readonly large: LargeSample;
}

/** A story for the clients that have the verbs it needs. */
export function story<Verb extends Extra>(
  sentence: string,
  { needs, tell }: { readonly needs: readonly Verb[]; tell(stage: Stage<Verb>): Promise<void> },
): Story {
  return { sentence, needs, tell };
}
